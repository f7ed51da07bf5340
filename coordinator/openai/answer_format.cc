// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answer_format.h"

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

}  // namespace lockstep::openai
