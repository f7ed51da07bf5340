// SPDX-License-Identifier: Apache-2.0
// A fuzzer's bytes as a field of a body: its name and its value.
#pragma once

#include <string>

#include "base/json.h"
#include "base/status.h"
#include "coordinator/openai/fields/field_table.h"
#include "tests/fuzz/draw.h"

namespace lockstep::openai {

// Names of other servers' fields, and of members of objects.
inline const OrderedJson kOtherNames = OrderedJson::parse(R"([
    "no_such_field", "stop_sequences", "num_predict", "max_length", "options", "keep_alive", "raw",
    "images", "with_pieces", "parse_special", "add_special", "system", "thinking", "logprobs",
    "sampling_params", "return_logprob", "data_parallel_rank", "kv_transfer_params", "vllm_xargs",
    "messages ", "Model", "", "content", "role", "type", "function", "name", "parameters", "5",
    "properties", "description", "strict", "arguments", "tool_calls", "tool_call_id", "call_id",
    "output", "refusal", "reasoning_content", "image_url", "url", "text", "format", "schema", "-1",
    "include_usage", "continuous_usage_stats", "include_obfuscation", "effort", "summary", "1e3",
    "verbosity", "enable_thinking", "id", "status", "annotations"])");

// Values of fields and members.
inline const OrderedJson kValues = OrderedJson::parse(R"([
    null, true, false, 0, 1, 2, 3, 5, 20, 64, 128, 129, 511, 512, -1, -2, 0.5, 1.5, 1e300, -1e300,
    1e-300, 2147483647, 2147483648, -2147483649, 9223372036854775807, -9223372036854775808, -0.0,
    18446744073709551615, 1e19, 1073741824, 4096, "", "auto", "none", "required", "user", "system",
    "developer", "assistant", "tool", "function", "text", "input_text", "output_text", "message",
    "function_call", "function_call_output", "reasoning", "json_object", "json_schema", "custom",
    "web_search", "image_url", "low", "medium", "left", "right", "demo", "Once", "{}", "null",
    "{\"a\": [1, 2]}", "message.output_text.logprobs", "\u00e9<|end|>", "\n\r\t\u007f", {}, [],
    [{"role": "user", "content": "Once"}],
    [{"role": "user", "content": [{"type": "text", "text": "Once"}]}],
    [{"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function",
      "function": {"name": "f", "arguments": "{}"}}]},
     {"role": "tool", "tool_call_id": "c", "content": "1"}, {"role": "user", "content": "a"}],
    [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
     {"type": "function_call_output", "call_id": "c", "output": "1"}],
    [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
    {"type": "function", "function": {"name": "f"}}, {"type": "json_object"}, {"type": "text"},
    {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
    {"format": {"type": "text"}, "verbosity": "medium"}, {"include_usage": true},
    {"effort": "low", "summary": null}, {"5": 1, "6": -100}, ["message.output_text.logprobs"],
    ["a", "b"], [[5, 6], [7]], [5, 6, 7]])");

inline std::string draw_name(Draw* draw) {
  switch (draw->number() % 8) {
    case 0:
      return printable(draw->text(20));
    case 1:
      return std::string(draw->number(), 'n');
    case 2:
    case 3:
      return kOtherNames[draw->number() % kOtherNames.size()];
    default: {
      const unsigned high = draw->number();
      return fields()[(high * 256 + draw->number()) % fields().size()].name;
    }
  }
}

inline OrderedJson draw_value(Draw* draw, int depth) {
  const unsigned kind = draw->number() % 12;
  if (kind < 6) return kValues[draw->number() % kValues.size()];
  if (kind == 6) return static_cast<int>(draw->number()) - 8;
  if (kind == 7) return printable(draw->text(20));
  if (kind == 8) return std::string(draw->number() * size_t{32}, 'a');
  OrderedJson value = kind == 9 ? OrderedJson::array() : OrderedJson::object();
  for (unsigned n = draw->number() % 4; n > 0 && depth > 0; --n) {
    if (value.is_array()) {
      value.push_back(draw_value(draw, depth - 1));
    } else {
      const std::string name = draw_name(draw);
      value[name] = draw_value(draw, depth - 1);
    }
  }
  return value;
}

}  // namespace lockstep::openai
