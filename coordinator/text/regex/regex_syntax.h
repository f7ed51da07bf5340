// SPDX-License-Identifier: Apache-2.0
// The syntax of the patterns in tokenizer.json, which is Oniguruma's.
#pragma once

#include <string_view>

#include "base/status.h"
#include "coordinator/text/regex/regex_node.h"

namespace lockstep {

// The pattern must be well-formed UTF-8 that Oniguruma accepts. Unimplemented: what only an engine
// that goes back without bounds matches (back references, calls, absent groups), and rare forms.
absl::StatusOr<RegexNode> parse_regex(std::string_view pattern);

}  // namespace lockstep
