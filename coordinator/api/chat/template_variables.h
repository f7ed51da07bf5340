// SPDX-License-Identifier: Apache-2.0
// The variables that a request sets for the chat template, in addition to its conversation.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "coordinator/text/template/chat_template.h"

namespace lockstep {

// Parses a request's field that holds a JSON object as text.
absl::StatusOr<OrderedJson> parse_object_field(const std::string& text, const std::string& field);

// Takes ChatTemplate::kThinkingVariables and the `named` variables from `json`, a JSON object or
// "". Other variables are ignored if the template never reads them, else kInvalidArgument. If
// enable_thinking is not set, reasoning_effort sets it: to false for "none", else to true.
// `defaults` is an object of any variables; it sets those that the request does not.
absl::StatusOr<OrderedJson> template_variables(const std::string& json,
                                               const std::vector<std::string>& named,
                                               const ChatTemplate& chat_template,
                                               const OrderedJson& defaults = OrderedJson::object());

}  // namespace lockstep
