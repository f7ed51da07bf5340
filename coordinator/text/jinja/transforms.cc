// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/transforms.h"

#include <algorithm>
#include <cstring>

#include "coordinator/text/jinja/characters.h"
#include "coordinator/text/unicode.h"

namespace lockstep::jinja {
namespace {

// Calls for each code point: (value, begin, end, whether it came from the request).
template <typename F>
void for_each(const MarkedText& text, F&& call) {
  MarkCursor marks(text);
  for (size_t at = 0; at < text.bytes.size();) {
    const CodePoint point = code_point_at(text.bytes, at);
    call(point.value, at, at + point.bytes, marks.at(at));
    at += point.bytes;
  }
}

// Each code point in the case that `choose` gives for it, or as it is.
template <typename F>
MarkedText in_cases(const MarkedText& text, F&& choose) {
  MarkedText made;
  std::string piece;
  for_each(text, [&](char32_t c, size_t begin, size_t end, bool marked) {
    const Case wanted = choose(c, begin, end);
    piece.clear();
    if (wanted == Case::kNone) {
      piece.append(text.bytes, begin, end - begin);
    } else {
      append_cased(c, wanted, &piece);
    }
    made.append(piece, marked);
  });
  return made;
}

constexpr size_t kFoundPlace = 256;  // What an occurrence costs, as bytes copied.

constexpr char32_t kSigma = 0x3A3;
constexpr std::string_view kFinalSigma = "ς";

// Whether the sigma at [begin, end) ends a word.
bool is_final_sigma(std::string_view text, size_t begin, size_t end) {
  return begin > 0 && case_of(code_point_before(text, begin).value) != Case::kNone &&
         (end == text.size() || case_of(code_point_at(text, end).value) == Case::kNone);
}

// The characters of a text, sorted.
std::u32string character_set(std::string_view characters) {
  std::u32string set;
  for (size_t at = 0; at < characters.size();) {
    const CodePoint point = code_point_at(characters, at);
    set.push_back(point.value);
    at += point.bytes;
  }
  std::ranges::sort(set);
  return set;
}

std::string reversed(std::string_view text) { return {text.rbegin(), text.rend()}; }

// Where `wanted` begins in the text, without overlaps, the first `most` times.
std::vector<size_t> places(std::string_view text, std::string_view wanted, int64_t most) {
  std::vector<size_t> found;
  for (size_t at = 0; most != 0; --most) {
    const size_t next = find_text(text, wanted, at);
    if (next == std::string_view::npos) break;
    found.push_back(next);
    at = next + wanted.size();
  }
  return found;
}

std::vector<ByteRange> split_at_blanks(std::string_view text, int64_t most, Ends from) {
  std::vector<ByteRange> parts;
  if (from == Ends::kRight) {
    size_t end = blanks_begin(text);
    while (end > 0) {
      size_t begin = end;
      if (most == 0) {
        begin = 0;
      } else {
        while (begin > 0 && !is_blank(code_point_before(text, begin).value)) {
          begin -= code_point_before(text, begin).bytes;
        }
      }
      parts.push_back({begin, end});
      if (most-- == 0) break;
      end = blanks_begin(text.substr(0, begin));
    }
    std::ranges::reverse(parts);
    return parts;
  }
  for (size_t begin = blanks_end(text, 0); begin < text.size();) {
    size_t end = begin;
    if (most == 0) {
      end = text.size();
    } else {
      while (end < text.size() && !is_blank(code_point_at(text, end).value)) {
        end += code_point_at(text, end).bytes;
      }
    }
    parts.push_back({begin, end});
    if (most-- == 0) break;
    begin = blanks_end(text, end);
  }
  return parts;
}

}  // namespace

MarkedText to_upper(const MarkedText& text) {
  return in_cases(text, [](char32_t, size_t, size_t) { return Case::kUpper; });
}

MarkedText to_lower(const MarkedText& text) {
  MarkedText made;
  std::string piece;
  for_each(text, [&](char32_t c, size_t begin, size_t end, bool marked) {
    piece.clear();
    if (c == kSigma && is_final_sigma(text.bytes, begin, end)) {
      piece = kFinalSigma;
    } else {
      append_cased(c, Case::kLower, &piece);
    }
    made.append(piece, marked);
  });
  return made;
}

MarkedText fold_case(const MarkedText& text) {
  return in_cases(to_upper(text), [](char32_t, size_t, size_t) { return Case::kLower; });
}

MarkedText swap_case(const MarkedText& text) {
  return in_cases(text, [](char32_t c, size_t, size_t) {
    const Case own = case_of(c);
    return own == Case::kUpper ? Case::kLower : own == Case::kLower ? Case::kUpper : Case::kNone;
  });
}

MarkedText capitalize(const MarkedText& text) {
  return in_cases(text, [](char32_t, size_t begin, size_t) {
    return begin == 0 ? Case::kTitle : Case::kLower;
  });
}

MarkedText title_case(const MarkedText& text) {
  bool in_word = false;
  return in_cases(text, [&in_word](char32_t c, size_t, size_t) {
    const bool was_in_word = std::exchange(in_word, case_of(c) != Case::kNone);
    return was_in_word ? Case::kLower : Case::kTitle;
  });
}

MarkedText title_words(const MarkedText& text) {
  bool in_word = false;
  return in_cases(text, [&in_word](char32_t c, size_t, size_t) {
    const bool between = is_blank(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    const bool was_in_word = std::exchange(in_word, !between);
    return was_in_word ? Case::kLower : Case::kUpper;
  });
}

MarkedText strip(const MarkedText& text, std::optional<std::string_view> characters, Ends ends) {
  const std::u32string set = character_set(characters.value_or(""));
  const auto goes = [&](char32_t c) {
    return characters.has_value() ? std::ranges::binary_search(set, c) : is_blank(c);
  };
  size_t begin = 0;
  size_t end = text.bytes.size();
  while (ends != Ends::kRight && begin < end && goes(code_point_at(text.bytes, begin).value)) {
    begin += code_point_at(text.bytes, begin).bytes;
  }
  while (ends != Ends::kLeft && begin < end && goes(code_point_before(text.bytes, end).value)) {
    end -= code_point_before(text.bytes, end).bytes;
  }
  return text.substr(begin, end);
}

size_t find_text(std::string_view text, std::string_view wanted, size_t begin) {
  if (begin > text.size()) return std::string_view::npos;
  const void* found =
      memmem(text.data() + begin, text.size() - begin, wanted.data(), wanted.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t find_last_text(std::string_view text, std::string_view wanted) {
  const size_t found = find_text(reversed(text), reversed(wanted), 0);
  return found == std::string_view::npos ? found : text.size() - found - wanted.size();
}

absl::StatusOr<MarkedText> replace(Budget* budget, const MarkedText& text, std::string_view old,
                                   const MarkedText& by, int64_t count) {
  MarkedText made;
  size_t copied = 0;  // Of the text, to `made`.
  for (size_t at = 0; count != 0; --count) {
    const size_t found = old.empty() ? at : find_text(text.bytes, old, at);
    if (found > text.bytes.size()) break;
    made.append(text, copied, found);
    made.append(by);
    budget->copy(kFoundPlace);
    RETURN_IF_ERROR(budget->check_text(made.bytes.size()));
    copied = found + old.size();
    at = copied;
    if (old.empty()) {  // The next place is behind the next character.
      if (at == text.bytes.size()) break;
      at += code_point_at(text.bytes, at).bytes;
    }
  }
  made.append(text, copied, text.bytes.size());
  RETURN_IF_ERROR(budget->check_text(made.bytes.size()));
  return made;
}

std::vector<ByteRange> split(std::string_view text, const std::string* separator, int64_t most,
                             Ends from) {
  if (separator == nullptr) return split_at_blanks(text, most, from);
  std::vector<size_t> cuts;
  if (from == Ends::kRight) {
    // The other way round, so that one search from left to right does it in linear time.
    cuts = places(reversed(text), reversed(*separator), most);
    for (size_t& cut : cuts) cut = text.size() - cut - separator->size();
    std::ranges::reverse(cuts);
  } else {
    cuts = places(text, *separator, most);
  }
  std::vector<ByteRange> parts;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    parts.push_back({begin, cut});
    begin = cut + separator->size();
  }
  parts.push_back({begin, text.size()});
  return parts;
}

std::vector<ByteRange> split_lines(std::string_view text, bool keep_ends) {
  std::vector<ByteRange> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && !is_line_break(code_point_at(text, end).value)) {
      end += code_point_at(text, end).bytes;
    }
    size_t next = end;
    if (next < text.size()) next += code_point_at(text, next).bytes;
    if (text.substr(end).starts_with("\r\n")) next = end + 2;
    lines.push_back({begin, keep_ends ? next : end});
    begin = next;
  }
  return lines;
}

absl::StatusOr<MarkedText> pad(Budget* budget, const MarkedText& text, int64_t length,
                               int64_t width, std::string_view fill, Ends padded) {
  const int64_t missing = std::max<int64_t>(width - length, 0);
  const auto most = budget->limits().text_bytes;
  RETURN_IF_ERROR(budget->check_text(
      text.bytes.size() + static_cast<size_t>(std::min(missing, most + 1)) * fill.size()));
  budget->copy(4 * static_cast<size_t>(missing));
  // Where the padding is uneven, str.center puts the larger half left of a text of odd width.
  const int64_t left = padded == Ends::kLeft    ? missing
                       : padded == Ends::kRight ? 0
                                                : missing / 2 + (missing & width & 1);
  const auto filled = [fill](int64_t count) {
    if (fill.size() == 1) return std::string(static_cast<size_t>(count), fill[0]);
    std::string all;
    for (int64_t i = 0; i < count; ++i) all += fill;
    return all;
  };
  MarkedText made = MarkedText::of(filled(left), false);
  made.append(text);
  made.append(filled(missing - left), false);
  return made;
}

}  // namespace lockstep::jinja
