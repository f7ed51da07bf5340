// SPDX-License-Identifier: Apache-2.0
// Finds the parts of a conversation that its prompt lacks. TemplateTraits knows what a template
// leaves out of every conversation; this file finds what it leaves out of one conversation.
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
// calls and tools. A template may trim or escape a text; so if one is not found, render() makes the
// prompt of the same conversation with other texts, which no template changes, and that prompt is
// searched. kInvalidArgument names the field that the template leaves out: the user's last message
// or a later one, or, if the user's message is the last, an instruction or a tool. Other missing
// parts (of earlier messages, and instructions and tools while a call is being answered) are only
// logged, because the model was trained so. Linear in the prompt. Any thread.
using RenderChat = absl::FunctionRef<absl::StatusOr<std::string>(const v1::ChatMessages& chat)>;
absl::Status check_losses(const v1::ChatMessages& chat, const TemplateInput& request,
                          const TemplateTraits& traits, std::string_view prompt, RenderChat render);

}  // namespace lockstep
