// SPDX-License-Identifier: Apache-2.0
#include "tools/load/workload.h"

#include "base/numbers/math.h"

namespace lockstep {
namespace {

// Frequent words, most of which are one token with the blank before them.
constexpr std::string_view kWords[] = {
    "the",   "of",    "and",    "to",    "in",    "is",      "you",    "that",  "it",    "he",
    "was",   "for",   "on",     "are",   "as",    "with",    "his",    "they",  "at",    "be",
    "this",  "have",  "from",   "or",    "one",   "had",     "by",     "word",  "but",   "not",
    "what",  "all",   "were",   "we",    "when",  "your",    "can",    "said",  "there", "use",
    "each",  "which", "she",    "do",    "how",   "their",   "if",     "will",  "up",    "other",
    "about", "out",   "many",   "then",  "them",  "these",   "so",     "some",  "her",   "would",
    "make",  "like",  "him",    "into",  "time",  "has",     "look",   "two",   "more",  "write",
    "go",    "see",   "number", "no",    "way",   "could",   "people", "my",    "than",  "first",
    "water", "been",  "call",   "who",   "oil",   "its",     "now",    "find",  "long",  "down",
    "day",   "did",   "get",    "come",  "made",  "may",     "part",   "over",  "new",   "sound",
    "take",  "only",  "little", "work",  "know",  "place",   "year",   "live",  "me",    "back",
    "give",  "most",  "very",   "after", "thing", "our",     "just",   "name",  "good",  "man",
    "think", "say",   "great",  "where", "help",  "through", "much",   "before"};

}  // namespace

Workload::Workload(WorkloadOptions options)
    : options_(std::move(options)), arrivals_(options_.seed), texts_(~options_.seed) {
  if (!options_.trace.empty()) options_.requests = static_cast<int64_t>(options_.trace.size());
}

std::string Workload::draw_prompt(int64_t tokens) {
  std::string prompt;
  for (int64_t i = 0; i < tokens; ++i) {
    if (i > 0) prompt += ' ';
    prompt += kWords[texts_() % std::size(kWords)];
  }
  return prompt;
}

LoadRequest Workload::next_of_trace() {
  const TraceEntry& entry = options_.trace[static_cast<size_t>(made_++)];
  return {.at_s = entry.at_s,
          .prompt = entry.prompt.empty() ? draw_prompt(entry.prompt_tokens) : entry.prompt,
          .max_tokens = entry.max_tokens};
}

std::optional<LoadRequest> Workload::next() {
  if (options_.requests > 0 && made_ == options_.requests) return std::nullopt;
  if (!options_.trace.empty()) return next_of_trace();
  // The first one arrives at once: waiting for it would measure nothing.
  if (options_.rate > 0 && made_ > 0) at_s_ -= exact_log(draw_uniform(arrivals_)) / options_.rate;
  LoadRequest request{.at_s = at_s_, .max_tokens = options_.output_tokens.draw(texts_)};
  if (options_.prompts.empty()) {
    request.prompt = draw_prompt(options_.prompt_tokens.draw(texts_));
  } else {
    request.prompt = options_.prompts[static_cast<size_t>(made_) % options_.prompts.size()];
  }
  ++made_;
  return request;
}

}  // namespace lockstep
