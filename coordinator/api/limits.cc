// SPDX-License-Identifier: Apache-2.0
// Protobuf's reflection walks the fields, so that a limit is only one row in the table. All limits
// are whole numbers, so that an integer is never compared as a float.
#include "coordinator/api/limits.h"

#include <string_view>

#include "base/field_error.h"
#include "base/status.h"
#include "proto/generate.pb.h"
#include "proto/sampling_ranges.h"

namespace lockstep {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr FieldLimit sampling(std::string_view field) {
  const SamplingRange& range = sampling_range(field);
  return {"GenerateRequest", range.field, Measure::kValue,
          range.min,         range.max,   range.min_included};
}

constexpr FieldLimit kLimits[] = {
    {"GenerateRequest", "prompt", Measure::kBytes, 0, kMaxMessageBytes},
    {"TokenIds", "ids", Measure::kCount, 0, 1 << 20},
    {"GenerateRequest", "prompt_embeds", Measure::kBytes, 0, kMaxMessageBytes},
    {"GenerateRequest", "max_tokens", Measure::kValue, 0, 1 << 30},
    {"GenerateRequest", "min_tokens", Measure::kValue, 0, 1 << 30},
    sampling("temperature"),
    sampling("top_k"),
    sampling("top_p"),
    sampling("min_p"),
    sampling("repetition_penalty"),
    sampling("presence_penalty"),
    sampling("frequency_penalty"),
    {"GenerateRequest", "logit_bias", Measure::kCount, 0, 1024},
    {"GenerateRequest", "logit_bias", Measure::kValue, -100, 100},
    {"GenerateRequest", "stop", Measure::kCount, 0, 64},
    {"GenerateRequest", "stop", Measure::kBytes, 1, 4096},
    {"GenerateRequest", "stop_ids", Measure::kCount, 0, 1024},
    {"GenerateRequest", "n", Measure::kValue, 1, 128},
    {"GenerateRequest", "logprobs", Measure::kValue, 0, 20},
    {"GenerateRequest", "prompt_logprobs", Measure::kValue, 0, 20},
    {"GenerateRequest", "logprob_ids", Measure::kCount, 0, 128},
    {"GenerateRequest", "allowed_ids", Measure::kCount, 0, 1 << 20},
    {"GenerateRequest", "bad_words", Measure::kCount, 0, 1024},
    {"GenerateRequest", "bad_words", Measure::kBytes, 1, 256},
    {"GenerateRequest", "truncate_prompt_tokens", Measure::kValue, -1, 1 << 30},
    {"GenerateRequest", "truncation_side", Measure::kBytes, 0, 5},
    {"GenerateRequest", "request_id", Measure::kBytes, 0, 128},
    {"GenerateRequest", "priority", Measure::kValue, -1000, 1000},
    {"GenerateRequest", "cache_salt", Measure::kBytes, 1, 128},
    {"ChatMessages", "messages", Measure::kCount, 1, 1 << 14},
    {"ChatMessages", "tools", Measure::kCount, 0, 256},
    {"ChatMessages", "tools", Measure::kBytes, 2, 64 << 10},
    {"ChatMessages", "documents", Measure::kCount, 0, 256},
    {"ChatMessages", "documents", Measure::kBytes, 2, 1 << 20},
    {"ChatMessages", "template_variables", Measure::kBytes, 0, 64 << 10},
    {"ChatMessage", "role", Measure::kBytes, 1, 64},
    {"ChatMessage", "content", Measure::kBytes, 0, kMaxMessageBytes},
    {"ChatMessage", "content_parts", Measure::kCount, 0, 1 << 14},
    {"ChatMessage", "content_parts", Measure::kBytes, 0, kMaxMessageBytes},
    {"ChatMessage", "name", Measure::kBytes, 0, 256},
    {"ChatMessage", "tool_call_id", Measure::kBytes, 0, 256},
    {"ChatMessage", "tool_calls", Measure::kCount, 0, 256},
    {"ChatMessage", "reasoning_content", Measure::kBytes, 0, kMaxMessageBytes},
    {"ToolCall", "id", Measure::kBytes, 0, 256},
    {"ToolCall", "name", Measure::kBytes, 1, 256},
    {"ToolCall", "arguments", Measure::kBytes, 0, 1 << 20},
    {"ResumeRequest", "request_id", Measure::kBytes, 1, 128},
    {"CancelRequest", "request_id", Measure::kBytes, 1, 128},
    {"TokenizeRequest", "text", Measure::kBytes, 0, kMaxMessageBytes},
    {"DetokenizeRequest", "ids", Measure::kCount, 0, 1 << 18},
};

template <typename Value>
absl::Status check(const FieldLimit& limit, Value found) {
  using Wide = std::conditional_t<std::is_floating_point_v<Value>, double, int64_t>;
  const Wide value = found;
  const Wide min = static_cast<Wide>(limit.min);
  const bool above = limit.min_included ? value >= min : value > min;
  if (above && value <= static_cast<Wide>(limit.max)) return absl::OkStatus();
  const char* verb = limit.measure == Measure::kValue ? "be" : "have";
  return field_error(limit.field, "must {} {}, found {}", verb, describe(limit), found);
}

// Checks a singular field that is set.
absl::Status check_field(const FieldLimit& limit, const Message& message,
                         const FieldDescriptor* field) {
  const Reflection* reflection = message.GetReflection();
  if (limit.measure == Measure::kBytes) {
    std::string scratch;
    return check(limit, static_cast<int64_t>(
                            reflection->GetStringReference(message, field, &scratch).size()));
  }
  return field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT
             ? check(limit, reflection->GetFloat(message, field))
             : check(limit, reflection->GetInt32(message, field));
}

absl::Status check_entries(const FieldLimit& limit, const Message& message,
                           const FieldDescriptor* field) {
  const Reflection* reflection = message.GetReflection();
  const int count = reflection->FieldSize(message, field);
  if (limit.measure == Measure::kCount) return check(limit, count);
  for (int i = 0; i < count; ++i) {
    if (field->is_map()) {
      const Message& entry = reflection->GetRepeatedMessage(message, field, i);
      RETURN_IF_ERROR(check_field(limit, entry, entry.GetDescriptor()->map_value()));
    } else {
      std::string scratch;
      const auto& text = reflection->GetRepeatedStringReference(message, field, i, &scratch);
      RETURN_IF_ERROR(check(limit, static_cast<int64_t>(text.size())));
    }
  }
  return absl::OkStatus();
}

absl::Status check_sums(const v1::ChatMessages& chat) {
  int64_t calls = 0, parts = 0;
  for (const v1::ChatMessage& message : chat.messages()) {
    calls += message.tool_calls_size();
    parts += message.content_parts_size();
  }
  constexpr auto kForm = "must have up to {} {} in all messages, found {}";
  if (calls > kMaxToolCalls) {
    return field_error("messages", kForm, kMaxToolCalls, "tool_calls", calls);
  }
  if (parts > kMaxContentParts) {
    return field_error("messages", kForm, kMaxContentParts, "content_parts", parts);
  }
  return absl::OkStatus();
}

// Checks the messages inside the message.
absl::Status check_inner(const Message& message, const FieldDescriptor* field) {
  const Reflection* reflection = message.GetReflection();
  const auto check_one = [](const Message& inner, const std::string& name) -> absl::Status {
    const absl::Status status = check_limits(inner);
    return status.ok() ? status : with_field(status, fmt::format("{}.{}", name, field_of(status)));
  };
  if (!field->is_repeated()) {
    if (!reflection->HasField(message, field)) return absl::OkStatus();
    return check_one(reflection->GetMessage(message, field), field->name());
  }
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    RETURN_IF_ERROR(check_one(reflection->GetRepeatedMessage(message, field, i),
                              fmt::format("{}[{}]", field->name(), i)));
  }
  return absl::OkStatus();
}

}  // namespace

std::span<const FieldLimit> field_limits() { return kLimits; }

std::string describe(const FieldLimit& limit) {
  if (!limit.min_included) return fmt::format("above {}, up to {}", limit.min, limit.max);
  const char* unit = limit.measure == Measure::kCount   ? " entries"
                     : limit.measure == Measure::kBytes ? " bytes"
                                                        : "";
  return limit.min == 0 && limit.measure != Measure::kValue
             ? fmt::format("up to {}{}", limit.max, unit)
             : fmt::format("{} to {}{}", limit.min, limit.max, unit);
}

absl::Status check_limits(const Message& message) {
  const auto* descriptor = message.GetDescriptor();
  const Reflection* reflection = message.GetReflection();
  for (const FieldLimit& limit : kLimits) {
    if (descriptor->name() != limit.message) continue;
    const FieldDescriptor* field = descriptor->FindFieldByName(limit.field);
    if (field->is_repeated()) {
      RETURN_IF_ERROR(check_entries(limit, message, field));
    } else if (!field->has_presence() || reflection->HasField(message, field)) {
      RETURN_IF_ERROR(check_field(limit, message, field));
    }
  }
  if (const auto* chat = google::protobuf::DynamicCastToGenerated<v1::ChatMessages>(&message)) {
    RETURN_IF_ERROR(check_sums(*chat));
  }
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    if (field->is_map() || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    RETURN_IF_ERROR(check_inner(message, field));
  }
  return absl::OkStatus();
}

}  // namespace lockstep
