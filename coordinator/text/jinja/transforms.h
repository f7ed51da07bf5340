// SPDX-License-Identifier: Apache-2.0
// Texts made from texts, as Python's str methods make them. Marks stay with their characters.
// Time is the caller's to charge, by the texts' sizes.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "coordinator/text/jinja/budget.h"
#include "coordinator/text/marked_text.h"

namespace lockstep::jinja {

MarkedText to_upper(const MarkedText& text);
MarkedText to_lower(const MarkedText& text);
MarkedText fold_case(const MarkedText& text);  // For comparisons without case.
MarkedText swap_case(const MarkedText& text);
MarkedText capitalize(const MarkedText& text);
// Each letter behind another one is lower case, each other one title case.
MarkedText title_case(const MarkedText& text);
// Jinja's own title: words begin behind blanks, "-" and opening brackets.
MarkedText title_words(const MarkedText& text);

// Which ends a function works on.
enum class Ends : uint8_t { kBoth, kLeft, kRight };

// Without these characters at the ends; without blanks where no characters are given.
MarkedText strip(const MarkedText& text, std::optional<std::string_view> characters,
                 Ends ends = Ends::kBoth);

// Replaces the first `count` occurrences, all where it is negative. An empty text occurs before
// every character and at the end. An error where the result is too long.
absl::StatusOr<MarkedText> replace(Budget* budget, const MarkedText& text, std::string_view old,
                                   const MarkedText& by, int64_t count);

// Where a text is cut: the parts [begin, end) in order. `most` cuts are made, all where it is
// negative; with Ends::kRight the last ones. A null separator: runs of blanks.
std::vector<ByteRange> split(std::string_view text, const std::string* separator, int64_t most,
                             Ends from);
std::vector<ByteRange> split_lines(std::string_view text, bool keep_ends);

// The first byte of `wanted` in `text` from `begin` on, in time by the text's size; npos: nowhere.
size_t find_text(std::string_view text, std::string_view wanted, size_t begin);
size_t find_last_text(std::string_view text, std::string_view wanted);

// Filled up with `fill` to so many code points, more on the right where kBoth is uneven in the way
// of str.center. The length is the text's own in code points.
absl::StatusOr<MarkedText> pad(Budget* budget, const MarkedText& text, int64_t length,
                               int64_t width, std::string_view fill, Ends padded);

}  // namespace lockstep::jinja
