// SPDX-License-Identifier: Apache-2.0
// Texts made from texts, as Python's str methods make them. Marks stay with their characters.
// Time is the caller's to charge, by the texts' sizes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/jinja/strings/budget.h"
#include "coordinator/text/jinja/strings/characters.h"
#include "coordinator/text/marked_text.h"

namespace lockstep::jinja {

// Appends what `map(character, &piece)` makes of each character, or the character itself where the
// piece stays empty.
template <typename F>
void append_mapped(const MarkedText& text, MarkedText* made, F&& map) {
  MarkCursor marks(text);
  std::string piece;
  for (const Character& c : Characters(text.bytes)) {
    piece.clear();
    map(c, &piece);
    if (piece.empty()) piece.append(text.bytes, c.begin, c.end - c.begin);
    made->append(piece, marks.at(c.begin));
  }
}

MarkedText to_upper(const MarkedText& text);
MarkedText to_lower(const MarkedText& text);
MarkedText fold_case(const MarkedText& text);  // For comparisons without case.
MarkedText swap_case(const MarkedText& text);
MarkedText capitalize(const MarkedText& text);
// Each letter after another one is lower case, each other one title case.
MarkedText title_case(const MarkedText& text);
// Jinja's own title: words begin after blanks, "-" and opening brackets.
MarkedText title_words(const MarkedText& text);

// Which ends a function works on.
enum class Ends : uint8_t { kBoth, kLeft, kRight };

// Without these characters at the ends; without blanks where no characters are given.
MarkedText strip(const MarkedText& text, std::optional<std::string_view> characters,
                 Ends ends = Ends::kBoth);

// Replaces the first `count` occurrences, all where it is negative. An empty text occurs before
// every character and at the end.
MarkedText replace(Budget& budget, const MarkedText& text, std::string_view old,
                   const MarkedText& by, int64_t count);

// The parts [begin, end) of a text, in order. At most `max` cuts are made, all where it is
// negative; with Ends::kRight the last ones. Without a separator: at runs of blanks.
std::vector<ByteRange> split(std::string_view text, std::optional<std::string_view> separator,
                             int64_t max = -1, Ends from = Ends::kLeft);
std::vector<ByteRange> split_lines(std::string_view text, bool keep_ends);

// The first place of `wanted` in `text`, in time by the text's size; npos: nowhere.
size_t find_text(std::string_view text, std::string_view wanted, size_t begin = 0);
// The first or last `max` places, which do not overlap, in order. A negative `max` is all; `wanted`
// must not be empty then.
std::vector<size_t> places(std::string_view text, std::string_view wanted, int64_t max, Ends from);

// Filled up with `fill` to a width in code points, more on the right where kBoth is uneven in the
// way of str.center.
MarkedText pad(Budget& budget, const MarkedText& text, int64_t width, std::string_view fill,
               Ends padded);

}  // namespace lockstep::jinja
