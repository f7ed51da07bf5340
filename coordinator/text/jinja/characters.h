// SPDX-License-Identifier: Apache-2.0
// Characters as Python's str sees them: which are blank, which are digits, and their cases. What
// takes a text wants well-formed UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::jinja {

bool is_blank(char32_t c);       // str.isspace, and what strip() and split() take away.
bool is_line_break(char32_t c);  // Where splitlines() cuts.
bool is_alphabetic(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_printable(char32_t c);  // Shown by repr() as it is.

// The end of the blanks that begin at `begin`, and the beginning of those at the text's end.
size_t blanks_end(std::string_view text, size_t begin);
size_t blanks_begin(std::string_view text);

int64_t count_code_points(std::string_view text);

enum class Case : uint8_t { kNone, kLower, kUpper, kTitle };
Case case_of(char32_t c);

// Appends the character in this case, which may be several. The final sigma is the caller's.
void append_cased(char32_t c, Case wanted, std::string* text);

}  // namespace lockstep::jinja
