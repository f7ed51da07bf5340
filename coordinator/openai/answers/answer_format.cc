// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answers/answer_format.h"

#include <algorithm>

#include "coordinator/openai/fields/unknown_fields.h"

namespace lockstep::openai {

int64_t bytes_of(const AnswerFacts& facts) {
  int64_t bytes = static_cast<int64_t>(facts.repeated.size());
  for (const std::string& text : facts.echo) bytes += static_cast<int64_t>(text.size());
  for (const std::vector<int32_t>& ids : facts.prompt_ids) {
    bytes += static_cast<int64_t>(ids.size() * sizeof(int32_t));
  }
  if (facts.output.functions != nullptr) bytes += facts.output.functions->bytes();
  return bytes;
}

void add_headers(const AnswerFacts& facts, http::Response* response) {
  response->headers.emplace_back("X-Request-Id", facts.id);
  if (!facts.ignored_fields.empty()) {
    response->headers.emplace_back(kIgnoredFields, facts.ignored_fields);
  }
}

OrderedJson usage_json(const UsageCounts& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}}};
}

void add_end(const AnswerFacts& facts, const StreamEvent& event, bool has_calls,
             OrderedJson* json) {
  const bool calls = event.finish_reason == FinishReason::kStop && has_calls;
  const StopCause& stop = event.stop;
  const OrderedJson matched = !stop.text.empty() ? OrderedJson(stop.text)
                              : stop.id >= 0     ? OrderedJson(stop.id)
                                                 : OrderedJson();
  const bool is_named =
      !stop.text.empty() || std::ranges::find(facts.stop_ids, stop.id) != facts.stop_ids.end();
  (*json)["finish_reason"] = calls ? "tool_calls" : finish_reason_name(event.finish_reason);
  (*json)["stop_reason"] = is_named ? matched : OrderedJson();
  (*json)["matched_stop"] = matched;
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

}  // namespace lockstep::openai
