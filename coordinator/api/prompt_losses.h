// SPDX-License-Identifier: Apache-2.0
// What the prompt of a conversation lacks of it. TemplateTraits knows what a template leaves out of
// any conversation; here is what it leaves out of this one.
#pragma once

#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "coordinator/text/template/chat_template.h"
#include "proto/generate.pb.h"

namespace lockstep {

// A line in the log, at most one per second.
void log_loss(const std::string& line);

// `prompt` is that of `chat`, which became `request`. Its texts, calls and tools are looked for in
// the prompt. If one is not found, as where a template trims or escapes it, render() decides: it
// gives the prompt of the same conversation with other texts. kInvalidArgument names the field of a
// text that the template leaves out: an instruction or the tools before an answer to the user,
// or what came since the user's last message. What it leaves out of earlier turns, and instructions
// and tools between a call and its answer, is a line in the log: such a template was trained so.
// Linear in the prompt. Any thread.
using RenderChat = absl::FunctionRef<absl::StatusOr<std::string>(const v1::ChatMessages& chat)>;
absl::Status check_losses(const v1::ChatMessages& chat, const ChatRequest& request,
                          const TemplateTraits& traits, std::string_view prompt, RenderChat render);

}  // namespace lockstep
