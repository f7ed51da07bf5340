// SPDX-License-Identifier: Apache-2.0
// Python's json module writes numbers that JSON does not have, and published files contain them:
// Infinity, -Infinity and NaN directly or, since transformers 5, as {"__float__": "NaN"}.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace lockstep {

// Turns the values Infinity, -Infinity and NaN in the text into strings.
std::string without_python_numbers(std::string_view text);

// parse_json() that returns these numbers, in both spellings, as strings.
absl::StatusOr<Json> parse_python_json(std::string_view text, std::string_view what,
                                       const JsonLimits& limits = {});

}  // namespace lockstep
