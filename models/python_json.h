// SPDX-License-Identifier: Apache-2.0
// Python's json module writes numbers that JSON does not have, and published files have them.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// The text with Infinity, -Infinity and NaN, where they are values, as strings of these names.
std::string without_python_numbers(std::string_view text);

}  // namespace lockstep
