// SPDX-License-Identifier: Apache-2.0
// Converts a request's conversation to the prompt, by the model's chat template.
#pragma once

#include "absl/status/statusor.h"
#include "coordinator/model/model.h"
#include "coordinator/text/template/chat_template.h"
#include "proto/generate.pb.h"

namespace lockstep {

// Converts a conversation to the input of a template with these traits and variables
// (template_variables.h). kInvalidArgument names the wrong field: it should be a JSON object, or
// the template leaves it out. The caller has checked the limits (limits.h).
absl::StatusOr<TemplateInput> to_template_input(const v1::ChatMessages& chat,
                                                OrderedJson variables = OrderedJson::object(),
                                                const TemplateTraits& traits = {});

// kInvalidArgument, one line: the model has no chat template, or the template refuses the
// conversation. Takes up to 2 MiB of stack and, for a hostile template, seconds. Thread-safe.
absl::StatusOr<MarkedText> render_chat(const v1::ChatMessages& chat, const Model& model);

}  // namespace lockstep
