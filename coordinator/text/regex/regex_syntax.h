// SPDX-License-Identifier: Apache-2.0
// Parses the patterns of tokenizer.json, whose syntax is Oniguruma's.
#pragma once

#include <string_view>

#include "base/status.h"
#include "coordinator/text/regex/regex_node.h"

namespace lockstep {

// The pattern must be well-formed UTF-8 that Oniguruma accepts. kUnimplemented: constructs that
// need unbounded backtracking (back references, calls, absent groups), and rare forms.
absl::StatusOr<RegexNode> parse_regex(std::string_view pattern);

}  // namespace lockstep
