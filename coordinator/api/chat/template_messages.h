// SPDX-License-Identifier: Apache-2.0
// Converts a request's messages to those that the model's chat template takes. Text that the
// template would leave out is never lost silently: it is moved to where the template shows it, or
// refused, or a log line reports it.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "coordinator/text/template/template_traits.h"
#include "proto/generate.pb.h"

namespace lockstep {

// Adapts messages to the template:
// - A developer's message becomes a system message if the template does not know the role.
// - The instructions at the start become one message if the template does not show a second one.
//   Some templates show them only if the last message is a user's. For such a template, if other
//   messages follow the user's last message, the instructions become part of that message.
// - A message's text and calls, or several calls, become successive messages if the template does
//   not show them together. Calls become text if the template does not show calls.
// - Several parts of a content stay a list if the template takes lists.
// - Arguments of earlier calls that are not a JSON object are passed as text, or as {} with a log
//   line.
// kInvalidArgument names the field that the template leaves out. The caller has checked the limits
// (limits.h).
absl::StatusOr<OrderedJson> to_template_messages(const v1::ChatMessages& chat,
                                                 const TemplateTraits& traits);

// kInvalidArgument: the request has tools or documents, which the template never shows.
absl::Status check_shown(const v1::ChatMessages& chat, const TemplateTraits& traits);

// The field that a template with these traits refuses, for instance "chat.messages[0].role"; "chat"
// if no field is known to be refused.
std::string refused_field(const v1::ChatMessages& chat, const TemplateTraits& traits);

}  // namespace lockstep
