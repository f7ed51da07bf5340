// SPDX-License-Identifier: Apache-2.0
// A request's messages -> what the model's chat template takes for them. Nothing that the template
// would leave out is lost without a word: it is put where the template shows it, or refused.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "coordinator/text/template/template_traits.h"
#include "proto/generate.pb.h"

namespace lockstep {

// A developer's message becomes a system's where the template does not know the role; instructions
// at the start become one where it shows no second one, and go into the last user's message where
// it shows them with that alone, and other messages follow it; a message's text and calls, or its
// calls, follow one another where it does not show them together; calls become text where it shows
// none. Several parts of a content stay a list where the template takes one. Earlier arguments that
// are no JSON object are passed as their text, or as {} with a line in the log. kInvalidArgument
// names the field that the template leaves out. The limits have to be checked before.
absl::StatusOr<OrderedJson> to_template_messages(const v1::ChatMessages& chat,
                                                 const TemplateTraits& traits);

// Tools and documents that the template never shows: kInvalidArgument.
absl::Status check_shown(const v1::ChatMessages& chat, const TemplateTraits& traits);

// The field that a template of these traits refuses: "chat.messages[0].role"; "chat" where none is
// known to be.
std::string refused_field(const v1::ChatMessages& chat, const TemplateTraits& traits);

}  // namespace lockstep
