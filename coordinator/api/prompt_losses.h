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

// `prompt` is made from `request`, which is made from `chat`. The prompt is searched for the texts
// (not for the assistant's), calls and tools. A template may trim or escape a text. So if a text is
// not found, render() makes the prompt of the same conversation with texts that no template
// changes, and that prompt is searched. kInvalidArgument names a field that the template leaves
// out: a part of the user's last message or of a later one; or, if the user's message is the last
// one, an instruction or a tool. Other missing parts are only logged, because the model was trained
// without them: parts of earlier messages, and instructions and tools while a call is being
// answered. Any thread; takes linear time.
using RenderChat = absl::FunctionRef<absl::StatusOr<std::string>(const v1::ChatMessages& chat)>;
absl::Status check_losses(const v1::ChatMessages& chat, const TemplateInput& request,
                          const TemplateTraits& traits, std::string_view prompt, RenderChat render);

}  // namespace lockstep
