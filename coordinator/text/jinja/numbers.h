// SPDX-License-Identifier: Apache-2.0
// Texts as numbers, as Python's int() and float() read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::jinja {

// Nothing where the text is no integer of 64 bits. Base 0 reads prefixes, as do 2, 8 and 16.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base);
std::optional<double> parse_float(std::string_view text);

}  // namespace lockstep::jinja
