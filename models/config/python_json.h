// SPDX-License-Identifier: Apache-2.0
// Python's json module writes numbers that JSON does not have, and published files have them:
// Infinity, -Infinity and NaN by themselves or, from transformers 5 on, as {"__float__": "NaN"}.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace lockstep {

// The text with Infinity, -Infinity and NaN, where they are values, as strings of these names.
std::string without_python_numbers(std::string_view text);

// parse_json(), with these numbers in both of their spellings as strings of these names.
absl::StatusOr<Json> parse_python_json(std::string_view text, std::string_view what,
                                       const JsonLimits& limits = {});

}  // namespace lockstep
