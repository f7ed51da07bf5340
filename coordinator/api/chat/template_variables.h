// SPDX-License-Identifier: Apache-2.0
// The variables that a request sets for the chat template, beside its conversation.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "coordinator/text/chat_template.h"

namespace lockstep {

// The JSON object that a field of a request holds as text.
absl::StatusOr<OrderedJson> parse_object_field(const std::string& text, const std::string& field);

// From a JSON object, or "", those of ChatTemplate::kThinkingVariables and those that are `named`.
// Others are left out where the template never reads them, else kInvalidArgument. A
// reasoning_effort says enable_thinking, too, unless the request does: false for "none".
// `defaults` are those that the request does not set: any, as an object.
absl::StatusOr<OrderedJson> template_variables(const std::string& json,
                                               const std::vector<std::string>& named,
                                               const ChatTemplate& chat_template,
                                               const OrderedJson& defaults = OrderedJson::object());

}  // namespace lockstep
