// SPDX-License-Identifier: Apache-2.0
// Finds the parts of a conversation that its prompt lacks. TemplateTraits knows what a template
// leaves out of any conversation; this file finds what it leaves out of the one at hand.
#pragma once

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "coordinator/text/template/chat_template.h"
#include "proto/generate.pb.h"

namespace lockstep {

// Logs a line, at most one per second.
void log_loss(const std::string& line);

// `prompt` is made from `request`, which is made from `chat`. The prompt is searched for the texts,
// calls and tools. If one is not found, for instance because a template trims or escapes it,
// render() decides: it returns the prompt of the same conversation with other texts.
// kInvalidArgument names the field of a text that the template leaves out, if it is an instruction
// or the tools before an answer to the user, or is newer than the user's last message. Missing
// parts of earlier turns, and instructions and tools missing between a call and its answer, are
// only logged: such a template was trained so. Linear in the prompt. Any thread.
using RenderChat = absl::FunctionRef<absl::StatusOr<std::string>(const v1::ChatMessages& chat)>;
absl::Status check_losses(const v1::ChatMessages& chat, const TemplateInput& request,
                          const TemplateTraits& traits, std::string_view prompt, RenderChat render);

}  // namespace lockstep
