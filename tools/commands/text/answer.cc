// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/text/answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "coordinator/text/detokenizer/token_texts.h"

namespace lockstep {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The tokens of a text, each with its best alternatives.
OrderedJson tokens_to_json(const std::vector<std::vector<Logprob>>& tokens, bool continues,
                           const Tokenizer* tokenizer) {
  std::optional<TokenTexts> texts;
  if (tokenizer != nullptr) texts.emplace(tokenizer, continues);
  OrderedJson list = OrderedJson::array();
  for (const std::vector<Logprob>& token : tokens) {
    std::vector<OrderedJson> all;
    for (const Logprob& one : token) all.push_back({{"id", one.id}, {"logprob", one.logprob}});
    if (texts.has_value()) {
      const std::vector<TokenText> shown = texts->push_first(ids_of(token));
      for (size_t i = 0; i < all.size(); ++i) all[i]["text"] = shown[i].text;
    }
    OrderedJson json = std::move(all[0]);
    json["top"] = OrderedJson::array();
    std::move(all.begin() + 1, all.end(), std::back_inserter(json["top"]));
    list.push_back(std::move(json));
  }
  return list;
}

// Nine significant digits identify a float; JSON has no infinities and no NaN.
std::string logits_to_json(const std::vector<float>& logits) {
  std::string text = "[";
  for (const float logit : logits) {
    if (text.size() > 1) text += ", ";
    text += std::isfinite(logit) ? fmt::format("{:.9g}", logit) : "null";
  }
  return text + "]";
}

}  // namespace

Answer::Answer(const EngineRequest& request, std::shared_ptr<Stream> stream)
    : wants_logits_(request.prompt_logits), stream_(std::move(stream)), choices_(request.n) {}

int64_t Answer::completion_tokens() const {
  int64_t tokens = 0;
  for (const Choice& choice : choices_) tokens += static_cast<int64_t>(choice.tokens.size());
  return tokens;
}

std::string Answer::wait_and_take() {
  stream_->wait(offset_);
  std::vector<StreamEvent> events;
  done_ = stream_->read(offset_, &events);
  offset_ += events.size();
  std::string added;
  for (StreamEvent& event : events) {
    Choice& choice = choices_[event.index];
    choice.tokens.insert(choice.tokens.end(), event.token_ids.begin(), event.token_ids.end());
    std::ranges::move(event.prompt_logprobs, std::back_inserter(choice.prompt_logprobs));
    choice.text += event.text;
    choice.logprobs.insert(choice.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
    if (event.finish_reason != FinishReason::kNone) {
      choice.finish_reason = event.finish_reason;
      choice.prompt_tokens = event.prompt_tokens;
      choice.cached_tokens = event.cached_tokens;
    }
    choice.seed = event.seed;
    if (!event.prompt_logits.empty()) prompt_logits_ = std::move(event.prompt_logits);
    if (event.index == 0) added += event.text;
  }
  return added;
}

std::string Answer::to_json(const Model& model) const {
  const auto describe = [&](const Choice& choice) {
    OrderedJson json = {{"tokens", choice.tokens},
                        {"text", choice.text},
                        {"finish_reason", finish_reason_name(choice.finish_reason)},
                        {"prompt_tokens", choice.prompt_tokens},
                        {"cached_tokens", choice.cached_tokens},
                        {"seed", choice.seed}};
    if (!choice.prompt_logprobs.empty()) {
      json["prompt_logprobs"] =
          tokens_to_json(choice.prompt_logprobs, /*continues=*/false, model.tokenizer());
    }
    if (!choice.logprobs.empty()) {
      json["logprobs"] = tokens_to_json(choice.logprobs, /*continues=*/true, model.tokenizer());
    }
    return json;
  };
  OrderedJson json = describe(choices_[0]);
  for (size_t i = 0; choices_.size() > 1 && i < choices_.size(); ++i) {
    json["choices"].push_back(describe(choices_[i]));
  }
  std::string text = json.dump();
  if (wants_logits_) {
    text.pop_back();
    text += fmt::format(",\"prompt_logits\":{}}}", logits_to_json(prompt_logits_));
  }
  return text;
}

std::string Answer::to_text() const {
  std::string text;
  for (const Choice& choice : choices_) {
    text += choice.text.empty() ? fmt::format("{}", fmt::join(choice.tokens, ",")) : choice.text;
    text += "\n";
  }
  return text;
}

}  // namespace lockstep
