// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answer_format.h"

#include <algorithm>

namespace lockstep::openai {
namespace {

constexpr float kLowest = -9999;  // JSON has no infinity.

std::string text_of(const AnswerFacts& facts, int32_t id) {
  if (facts.tokenizer == nullptr) return "token_id:" + std::to_string(id);
  return facts.tokenizer->decode(std::span(&id, 1), /*skip_special=*/false);
}

float finite(float logprob) { return std::max(logprob, kLowest); }

OrderedJson chat_entry(const AnswerFacts& facts, const Logprob& logprob) {
  const std::string text = text_of(facts, logprob.id);
  OrderedJson bytes = OrderedJson::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", text}, {"logprob", finite(logprob.logprob)}, {"bytes", std::move(bytes)}};
}

OrderedJson chat_logprobs(const AnswerFacts& facts,
                          const std::vector<std::vector<Logprob>>& tokens) {
  OrderedJson content = OrderedJson::array();
  for (const std::vector<Logprob>& token : tokens) {
    OrderedJson entry = chat_entry(facts, token[0]);
    entry["top_logprobs"] = OrderedJson::array();
    for (size_t i = 1; i < token.size(); ++i) {
      entry["top_logprobs"].push_back(chat_entry(facts, token[i]));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

OrderedJson no_completion_logprobs() {
  return {{"text_offset", OrderedJson::array()},
          {"token_logprobs", OrderedJson::array()},
          {"tokens", OrderedJson::array()},
          {"top_logprobs", OrderedJson::array()}};
}

// The chosen token is among the best ones, or is added to them.
void add_token(const AnswerFacts& facts, const std::vector<Logprob>& token, const std::string& text,
               int64_t offset, OrderedJson* json) {
  (*json)["text_offset"].push_back(offset);
  (*json)["token_logprobs"].push_back(finite(token[0].logprob));
  (*json)["tokens"].push_back(text);
  OrderedJson top = OrderedJson::object();
  for (size_t i = 1; i < token.size(); ++i) {
    top.emplace(text_of(facts, token[i].id), finite(token[i].logprob));
  }
  top.emplace(text, finite(token[0].logprob));
  (*json)["top_logprobs"].push_back(std::move(top));
}

OrderedJson completion_logprobs(const AnswerFacts& facts,
                                const std::vector<std::vector<Logprob>>& tokens, int64_t* offset) {
  OrderedJson json = no_completion_logprobs();
  for (const std::vector<Logprob>& token : tokens) {
    const std::string text = text_of(facts, token[0].id);
    add_token(facts, token, text, *offset, &json);
    *offset += count_characters(text);
  }
  return json;
}

}  // namespace

OrderedJson usage_json(const UsageCounts& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

OrderedJson finish_reason_json(FinishReason reason, bool has_calls) {
  if (reason == FinishReason::kNone) return nullptr;
  if (reason == FinishReason::kStop && has_calls) return "tool_calls";
  return finish_reason_name(reason);
}

std::string call_id(const std::string& answer_id, int32_t choice, const CallDelta& call) {
  if (!call.id.empty()) return call.id;
  constexpr std::string_view kDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : answer_id + "/" + std::to_string(choice) + "/" + std::to_string(call.index)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  std::string id;
  for (hash ^= hash >> 32; id.size() < 9; hash /= kDigits.size()) {
    id += kDigits[hash % kDigits.size()];
  }
  return id;
}

OrderedJson logprobs_json(const AnswerFacts& facts, const std::vector<std::vector<Logprob>>& tokens,
                          int64_t* offset) {
  return facts.endpoint == kChat ? chat_logprobs(facts, tokens)
                                 : completion_logprobs(facts, tokens, offset);
}

EchoPlace::EchoPlace(const AnswerFacts& facts) {
  if (facts.tokenizer != nullptr) detokenizer.emplace(facts.tokenizer, /*after_text_prompt=*/false);
}

OrderedJson echo_logprobs_json(const AnswerFacts& facts,
                               const std::vector<std::vector<Logprob>>& tokens, EchoPlace* place) {
  OrderedJson json = no_completion_logprobs();
  for (const std::vector<Logprob>& token : tokens) {
    const std::string text = text_of(facts, token[0].id);
    add_token(facts, token, text, place->offset, &json);
    if (place->tokens++ == 0) json["token_logprobs"][0] = json["top_logprobs"][0] = nullptr;
    place->offset += count_characters(
        place->detokenizer.has_value() ? place->detokenizer->push(token[0].id) : text);
  }
  return json;
}

OrderedJson prompt_logprobs_json(const AnswerFacts& facts,
                                 const std::vector<std::vector<Logprob>>& tokens) {
  OrderedJson json = OrderedJson::array();
  for (const std::vector<Logprob>& token : tokens) {
    OrderedJson ranked = OrderedJson::object();
    for (size_t rank = 0; rank < token.size(); ++rank) {
      const Logprob& one = token[rank];
      OrderedJson& entry = ranked[std::to_string(one.id)];
      entry = {{"logprob", finite(one.logprob)},
               {"rank", rank > 0 ? OrderedJson(rank) : OrderedJson()},
               {"decoded_token", text_of(facts, one.id)}};
    }
    json.push_back(json.empty() ? OrderedJson() : std::move(ranked));
  }
  return json;
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

int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; });
}

}  // namespace lockstep::openai
