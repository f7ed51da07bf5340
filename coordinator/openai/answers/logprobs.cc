// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answers/logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/text_map.h"
#include "coordinator/openai/answers/json_pieces.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep::openai {
namespace {

std::string number(float logprob) {
  constexpr float kLowest = -9999;  // JSON has no infinity.
  return write_json(std::max(logprob, kLowest));
}

std::string id_name(int32_t id) { return "token_id:" + std::to_string(id); }

}  // namespace

TokenLogprobs shown_logprobs(const AnswerFacts& facts, const StreamEvent& event) {
  const bool hides_last = event.stop.id >= 0 && !facts.shows_end_token();
  return TokenLogprobs(event.logprobs)
      .first(event.logprobs.size() - (hides_last && !event.logprobs.empty() ? 1 : 0));
}

int64_t logprob_bytes(const AnswerFacts& facts, const std::vector<Logprob>& token) {
  constexpr int64_t kEntry = 60, kBytesPerByte = 5, kCompletionEntry = 28;
  const bool is_completion = facts.endpoint == kCompletions;
  int64_t bytes = 0;
  for (const Logprob& one : token) {
    int64_t text = 16;  // "token_id:123456"
    if (facts.tokenizer != nullptr) {
      const std::string* shown = facts.tokenizer->shown_text(one.id, /*skip_special=*/false);
      text = shown == nullptr ? 0 : std::ssize(*shown);
    }
    bytes += is_completion ? kCompletionEntry + text : kEntry + kBytesPerByte * text;
  }
  return bytes;
}

LogprobWriter::LogprobWriter(const AnswerFacts& facts, TokenSource of, size_t prompt)
    : facts_(facts),
      offset_(of == TokenSource::kAnswer ? count_characters(facts.echo_of(prompt)) : 0),
      has_begun_(of == TokenSource::kAnswer) {
  if (facts.tokenizer == nullptr) return;
  std::string_view known;
  if (of == TokenSource::kPrompt) known = facts.echo_of(prompt);
  texts_.emplace(facts.tokenizer, /*continues=*/has_begun_, known);
}

std::vector<TokenText> LogprobWriter::texts_of(const std::vector<Logprob>& token) {
  return texts_.has_value() ? texts_->push_first(ids_of(token))
                            : std::vector<TokenText>(token.size());
}

std::string LogprobWriter::name(int32_t id, const TokenText& text) const {
  return facts_.tokens_as_ids || !texts_.has_value() ? id_name(id) : text.text;
}

std::string LogprobWriter::open_entry(const Logprob& logprob, const TokenText& text) const {
  std::string json = fmt::format(R"({{"token":{},"logprob":{},"bytes":)",
                                 write_json(name(logprob.id, text)), number(logprob.logprob));
  if (!texts_.has_value()) return json + "null";
  json += '[';
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    if (i > 0) json += ',';
    json += fmt::format_int(static_cast<unsigned char>(text.bytes[i])).c_str();
  }
  return json + ']';
}

TokenEntry LogprobWriter::entry(const std::vector<Logprob>& token) {
  const std::vector<TokenText> texts = texts_of(token);
  TokenEntry entry = {name(token[0].id, texts[0]), open_entry(token[0], texts[0])};
  entry.json += ",\"top_logprobs\":[";
  for (size_t i = 1; i < token.size(); ++i) {
    if (i > 1) entry.json += ',';
    entry.json += open_entry(token[i], texts[i]) + '}';
  }
  entry.json += "]}";
  return entry;
}

std::vector<TokenEntry> LogprobWriter::entries(TokenLogprobs tokens) {
  std::vector<TokenEntry> all;
  all.reserve(tokens.size());
  for (const std::vector<Logprob>& token : tokens) all.push_back(entry(token));
  return all;
}

std::string LogprobWriter::chat(TokenLogprobs tokens) {
  std::string list;
  for (const std::vector<Logprob>& token : tokens) append_entry(entry(token).json, &list);
  return "{\"content\":[" + list + "],\"refusal\":null}";
}

CompletionLogprobs LogprobWriter::completion(TokenLogprobs tokens) {
  CompletionLogprobs lists;
  for (const std::vector<Logprob>& token : tokens) add_completion(token, &lists);
  return lists;
}

// The token itself is first. If several tokens have the same text, all except the first are named
// by id.
void LogprobWriter::add_completion(const std::vector<Logprob>& token, CompletionLogprobs* lists) {
  const std::vector<TokenText> texts = texts_of(token);
  const std::string own = name(token[0].id, texts[0]);
  TextSet<std::string> names = {own};
  std::string top = write_json(own) + ':' + number(token[0].logprob);
  for (size_t i = 1; i < token.size(); ++i) {
    if (token[i].id == token[0].id) continue;
    std::string key = name(token[i].id, texts[i]);
    if (!names.insert(key).second) {
      key = id_name(token[i].id);
      if (!names.insert(key).second) continue;
    }
    top += ',' + write_json(key) + ':' + number(token[i].logprob);
  }
  const bool is_scored = std::exchange(has_begun_, true);
  append_entry(fmt::format_int(offset_ + texts[0].offset).c_str(), &lists->text_offset);
  append_entry(is_scored ? number(token[0].logprob) : "null", &lists->token_logprobs);
  append_entry(write_json(own), &lists->tokens);
  append_entry(is_scored ? '{' + top + '}' : "null", &lists->top_logprobs);
}

std::string LogprobWriter::prompt(TokenLogprobs tokens) {
  std::string list;
  for (const std::vector<Logprob>& token : tokens) {
    const std::vector<TokenText> texts = texts_of(token);
    const auto best = std::span(token).subspan(1);
    const auto own = std::ranges::find(best, token[0].id, &Logprob::id);
    std::string ranked;
    for (size_t i = 0; i < token.size(); ++i) {
      const Logprob& one = token[i];
      if (i > 0 && one.id == token[0].id) continue;
      const auto rank = i > 0 ? i : own != best.end() ? 1 + (own - best.begin()) : 0;
      append_entry(fmt::format(R"("{}":{{"logprob":{},"rank":{},"decoded_token":{}}})", one.id,
                               number(one.logprob), rank > 0 ? std::to_string(rank) : "null",
                               write_json(texts_.has_value() ? texts[i].text : id_name(one.id))),
                   &ranked);
    }
    append_entry(std::exchange(has_begun_, true) ? '{' + ranked + '}' : "null", &list);
  }
  return '[' + list + ']';
}

void LogprobWriter::skip(TokenLogprobs tokens) {
  for (const std::vector<Logprob>& token : tokens) {
    if (texts_.has_value()) texts_->push(token[0].id);
    has_begun_ = true;
  }
}

void CompletionLogprobs::append(const CompletionLogprobs& more) {
  if (more.tokens.empty()) return;
  append_entry(more.text_offset, &text_offset);
  append_entry(more.token_logprobs, &token_logprobs);
  append_entry(more.tokens, &tokens);
  append_entry(more.top_logprobs, &top_logprobs);
}

std::string CompletionLogprobs::json() const {
  return fmt::format(
      R"({{"text_offset":[{}],"token_logprobs":[{}],"tokens":[{}],"top_logprobs":[{}]}})",
      text_offset, token_logprobs, tokens, top_logprobs);
}

}  // namespace lockstep::openai
