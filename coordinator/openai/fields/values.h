// SPDX-License-Identifier: Apache-2.0
// Reads JSON values of fields. Errors are kInvalidArgument: the field, what it must be, what was
// found; the field is the error's param.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "proto/generate.pb.h"

namespace lockstep::openai {

absl::Status wrong_value(const std::string& field, const std::string& wanted,
                         const OrderedJson& found);
// The header with the time limit that a client sets for its request, in milliseconds.
inline constexpr char kTimeoutHeader[] = "X-Request-Timeout-Ms";
// Reads that header's value. An empty value (no header) gives 0: there is no limit.
absl::StatusOr<int64_t> timeout_of(std::string_view header);

absl::StatusOr<bool> as_bool(const std::string& field, const OrderedJson& value);
absl::StatusOr<std::string> as_string(const std::string& field, const OrderedJson& value);
// Accepts 5.0 as an integer, too.
absl::StatusOr<int64_t> as_integer(const std::string& field, const OrderedJson& value);
absl::StatusOr<int32_t> as_int32(const std::string& field, const OrderedJson& value);
absl::StatusOr<float> as_float(const std::string& field, const OrderedJson& value);
absl::StatusOr<std::vector<int32_t>> as_ids(const std::string& field, const OrderedJson& value);

// Sets the message's field of this name, by its type. A negative seed wraps around.
absl::Status set_scalar(const std::string& field, const OrderedJson& value, const char* name,
                        v1::GenerateRequest* message);

// A message's content. Some types of parts are thoughts, all others are text.
struct ContentText {
  std::vector<std::string> texts;
  std::string thoughts;  // With line ends between them.
};
// Reads a string, or a list of parts and strings. Images, audio and files are refused.
absl::StatusOr<ContentText> read_content(const std::string& field, const OrderedJson& value);
// One text becomes the message's content, several become its parts.
void set_texts(std::vector<std::string> texts, v1::ChatMessage* message);

// The arguments of a call that a model made earlier, unchanged.
std::string arguments_text(const OrderedJson* value);

// OpenAI's messages and tools.
absl::Status read_messages(const OrderedJson& value, v1::ChatMessages* chat);
absl::Status read_tools(const OrderedJson& value, v1::ChatMessages* chat);
// The same for /v1/responses: items, and tools whose members are not in a "function".
absl::Status read_input(const OrderedJson& value, v1::ChatMessages* chat);
absl::Status read_flat_tools(const OrderedJson& value, v1::ChatMessages* chat);
// Refuses a tool whose type is not "function".
absl::Status check_tool(const std::string& field, const OrderedJson& tool);
// Null if the member is missing or null.
const OrderedJson* member(const OrderedJson& object, const char* name);

}  // namespace lockstep::openai
