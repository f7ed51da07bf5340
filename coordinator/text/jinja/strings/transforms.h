// SPDX-License-Identifier: Apache-2.0
// Texts made from texts, as by Python's str methods. Each character keeps its mark, which says
// whether it came from the request. The caller charges its Budget for reading the texts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/jinja/strings/budget.h"
#include "coordinator/text/jinja/strings/characters.h"
#include "coordinator/text/marked_text.h"

namespace lockstep::jinja {

// Appends the `piece` that `map(character, &piece)` writes for each character, or the character
// itself if the piece is empty.
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
MarkedText fold_case(const MarkedText& text);  // For comparisons that ignore case.
MarkedText swap_case(const MarkedText& text);
MarkedText capitalize(const MarkedText& text);
// A letter after another letter becomes lower case, all others title case.
MarkedText title_case(const MarkedText& text);
// Jinja's own title: words begin after blanks, "-" and opening brackets.
MarkedText title_words(const MarkedText& text);

// The ends on which a function works.
enum class Ends : uint8_t { kBoth, kLeft, kRight };

// Removes these characters at the ends; blanks if no characters are given.
MarkedText strip(const MarkedText& text, std::optional<std::string_view> characters,
                 Ends ends = Ends::kBoth);

// Replaces the first `count` occurrences, or all if `count` is negative. An empty text occurs
// before every character and at the end.
MarkedText replace(Budget& budget, const MarkedText& text, std::string_view old,
                   const MarkedText& by, int64_t count);

// The parts [begin, end) of a text, in order. Makes the first `max` splits, or with Ends::kRight
// the last ones; all if `max` is negative. Without a separator, splits at runs of blanks.
std::vector<ByteRange> split(std::string_view text, std::optional<std::string_view> separator,
                             int64_t max = -1, Ends from = Ends::kLeft);
std::vector<ByteRange> split_lines(std::string_view text, bool keep_ends);

// The positions of the first or last `max` occurrences, which do not overlap, in order. If `max` is
// negative: of all occurrences; then `wanted` must not be empty.
std::vector<size_t> positions_of(std::string_view text, std::string_view wanted, int64_t max,
                                 Ends from);

// Pads to a width in code points with `fill`. For kBoth, an uneven padding is split as in
// str.center.
MarkedText pad(Budget& budget, const MarkedText& text, int64_t width, std::string_view fill,
               Ends padded);

}  // namespace lockstep::jinja
