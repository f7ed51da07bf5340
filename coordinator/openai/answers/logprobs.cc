// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answers/logprobs.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "coordinator/text/unicode/unicode.h"

namespace lockstep::openai {
namespace {

float finite(float logprob) {
  constexpr float kLowest = -9999;  // JSON has no infinity.
  return std::max(logprob, kLowest);
}

std::string id_name(int32_t id) { return "token_id:" + std::to_string(id); }

}  // namespace

TokenLogprobs shown_logprobs(const AnswerFacts& facts, const StreamEvent& event) {
  const bool hides_last = event.stop.id >= 0 && !facts.shows_end_token();
  return TokenLogprobs(event.logprobs)
      .first(event.logprobs.size() - (hides_last && !event.logprobs.empty() ? 1 : 0));
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

OrderedJson LogprobWriter::entry(const Logprob& logprob, const TokenText& text) const {
  OrderedJson bytes;
  if (texts_.has_value()) {
    bytes = OrderedJson::array();
    for (const char c : text.bytes) bytes.push_back(static_cast<unsigned char>(c));
  }
  return {{"token", name(logprob.id, text)},
          {"logprob", finite(logprob.logprob)},
          {"bytes", std::move(bytes)}};
}

OrderedJson LogprobWriter::entries(TokenLogprobs tokens) {
  OrderedJson all = OrderedJson::array();
  for (const std::vector<Logprob>& token : tokens) {
    const std::vector<TokenText> texts = texts_of(token);
    OrderedJson one = entry(token[0], texts[0]);
    one["top_logprobs"] = OrderedJson::array();
    for (size_t i = 1; i < token.size(); ++i) {
      one["top_logprobs"].push_back(entry(token[i], texts[i]));
    }
    all.push_back(std::move(one));
  }
  return all;
}

OrderedJson LogprobWriter::chat(TokenLogprobs tokens) {
  return {{"content", entries(tokens)}, {"refusal", nullptr}};
}

OrderedJson LogprobWriter::completion(TokenLogprobs tokens) {
  OrderedJson json = {{"text_offset", OrderedJson::array()},
                      {"token_logprobs", OrderedJson::array()},
                      {"tokens", OrderedJson::array()},
                      {"top_logprobs", OrderedJson::array()}};
  for (const std::vector<Logprob>& token : tokens) add_completion(token, &json);
  return json;
}

// The token itself is first. If several tokens have the same text, all except the first are named
// by id.
void LogprobWriter::add_completion(const std::vector<Logprob>& token, OrderedJson* json) {
  const std::vector<TokenText> texts = texts_of(token);
  const std::string own = name(token[0].id, texts[0]);
  OrderedJson top = {{own, finite(token[0].logprob)}};
  for (size_t i = 1; i < token.size(); ++i) {
    if (token[i].id == token[0].id) continue;
    std::string key = name(token[i].id, texts[i]);
    if (top.contains(key)) key = id_name(token[i].id);
    top.emplace(std::move(key), finite(token[i].logprob));
  }
  const bool is_scored = std::exchange(has_begun_, true);
  (*json)["text_offset"].push_back(offset_ + texts[0].offset);
  (*json)["token_logprobs"].push_back(is_scored ? OrderedJson(finite(token[0].logprob))
                                                : OrderedJson());
  (*json)["tokens"].push_back(own);
  (*json)["top_logprobs"].push_back(is_scored ? std::move(top) : OrderedJson());
}

OrderedJson LogprobWriter::prompt(TokenLogprobs tokens) {
  OrderedJson json = OrderedJson::array();
  for (const std::vector<Logprob>& token : tokens) {
    const std::vector<TokenText> texts = texts_of(token);
    OrderedJson ranked = OrderedJson::object();
    for (size_t rank = 0; rank < token.size(); ++rank) {
      const Logprob& one = token[rank];
      OrderedJson& entry = ranked[std::to_string(one.id)];
      entry = {{"logprob", finite(one.logprob)},
               {"rank", rank > 0 ? OrderedJson(rank) : OrderedJson()},
               {"decoded_token", texts_.has_value() ? texts[rank].text : id_name(one.id)}};
    }
    json.push_back(std::exchange(has_begun_, true) ? std::move(ranked) : OrderedJson());
  }
  return json;
}

void LogprobWriter::skip(TokenLogprobs tokens) {
  for (const std::vector<Logprob>& token : tokens) {
    if (texts_.has_value()) texts_->push(token[0].id);
    has_begun_ = true;
  }
}

void append_logprobs(OrderedJson more, OrderedJson* logprobs) {
  if (logprobs->is_null()) {
    *logprobs = std::move(more);
    return;
  }
  for (auto& [name, values] : more.items()) {
    for (OrderedJson& value : values) (*logprobs)[name].push_back(std::move(value));
  }
}

}  // namespace lockstep::openai
