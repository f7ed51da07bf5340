// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/jinja/strings/transforms.h"

#include <algorithm>

#include "coordinator/text/text_search.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep::jinja {
namespace {

constexpr size_t kFoundPlace = 256;  // The cost of an occurrence, as bytes copied.

// Each character in the case that `choose` returns for it, or unchanged.
template <typename F>
MarkedText in_cases(const MarkedText& text, F&& choose) {
  MarkedText made;
  append_mapped(text, &made, [&](const Character& c, std::string* piece) {
    if (const Case wanted = choose(c); wanted != Case::kNone) append_cased(c.value, wanted, piece);
  });
  return made;
}

// Words in title case: `is_between` is true for word separators.
template <typename F>
MarkedText titled(const MarkedText& text, Case first, F&& is_between) {
  bool in_word = false;
  return in_cases(text, [&](const Character& c) {
    return std::exchange(in_word, !is_between(c.value)) ? Case::kLower : first;
  });
}

// Whether the character is a final sigma: at the end of a word, a sigma has a form of its own.
bool is_final_sigma(std::string_view text, const Character& c) {
  return c.value == 0x3A3 && c.begin > 0 &&
         case_of(code_point_before(text, c.begin).value) != Case::kNone &&
         (c.end == text.size() || case_of(code_point_at(text, c.end).value) == Case::kNone);
}

std::string reversed(std::string_view text) { return {text.rbegin(), text.rend()}; }

std::vector<ByteRange> split_at_blanks(std::string_view text, int64_t max, Ends from) {
  std::vector<ByteRange> words;
  for (size_t begin = blanks_end(text, 0); begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && !is_blank(code_point_at(text, end).value)) {
      end += code_point_at(text, end).bytes;
    }
    words.push_back({begin, end});
    begin = blanks_end(text, end);
  }
  const auto cuts = static_cast<size_t>(max);
  if (max < 0 || words.size() <= cuts) return words;
  if (from == Ends::kRight) {  // The unsplit part keeps its blanks.
    words.erase(words.begin(), words.end() - static_cast<ptrdiff_t>(cuts) - 1);
    words[0].begin = 0;
  } else {
    words.resize(cuts + 1);
    words[cuts].end = text.size();
  }
  return words;
}

}  // namespace

MarkedText to_upper(const MarkedText& text) {
  return in_cases(text, [](const Character&) { return Case::kUpper; });
}

MarkedText to_lower(const MarkedText& text) {
  MarkedText made;
  append_mapped(text, &made, [&](const Character& c, std::string* piece) {
    if (is_final_sigma(text.bytes, c)) {
      *piece = "ς";
    } else {
      append_cased(c.value, Case::kLower, piece);
    }
  });
  return made;
}

MarkedText fold_case(const MarkedText& text) {
  return in_cases(to_upper(text), [](const Character&) { return Case::kLower; });
}

MarkedText swap_case(const MarkedText& text) {
  return in_cases(text, [](const Character& c) {
    const Case own = case_of(c.value);
    return own == Case::kUpper ? Case::kLower : own == Case::kLower ? Case::kUpper : Case::kNone;
  });
}

MarkedText capitalize(const MarkedText& text) {
  return in_cases(text,
                  [](const Character& c) { return c.begin == 0 ? Case::kTitle : Case::kLower; });
}

MarkedText title_case(const MarkedText& text) {
  return titled(text, Case::kTitle, [](char32_t c) { return case_of(c) == Case::kNone; });
}

MarkedText title_words(const MarkedText& text) {
  return titled(text, Case::kUpper, [](char32_t c) {
    return is_blank(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
  });
}

MarkedText strip(const MarkedText& text, std::optional<std::string_view> characters, Ends ends) {
  std::u32string set;
  for (const Character& c : Characters(characters.value_or(""))) set.push_back(c.value);
  std::ranges::sort(set);
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

std::vector<size_t> positions_of(std::string_view text, std::string_view wanted, int64_t max,
                                 Ends from) {
  std::vector<size_t> found;
  if (from == Ends::kRight) {
    // Searches the reversed texts from left to right, which takes linear time.
    found = positions_of(reversed(text), reversed(wanted), max, Ends::kLeft);
    for (size_t& place : found) place = text.size() - place - wanted.size();
    std::ranges::reverse(found);
    return found;
  }
  for (size_t at = 0; max != 0; --max) {
    const size_t next = find_text(text, wanted, at);
    if (next == std::string_view::npos) break;
    found.push_back(next);
    at = next + wanted.size();
  }
  return found;
}

MarkedText replace(Budget& budget, const MarkedText& text, std::string_view old,
                   const MarkedText& by, int64_t count) {
  MarkedText made;
  size_t copied = 0;  // The number of the text's bytes that are in `made`.
  for (size_t at = 0; count != 0; --count) {
    const size_t found = old.empty() ? at : find_text(text.bytes, old, at);
    if (found > text.bytes.size()) break;
    made.append(text, copied, found);
    made.append(by);
    budget.copy(kFoundPlace);
    if (!budget.check_text(made.bytes.size())) return {};
    copied = found + old.size();
    at = copied;
    if (old.empty()) {  // The next place is after the next character.
      if (at == text.bytes.size()) break;
      at += code_point_at(text.bytes, at).bytes;
    }
  }
  made.append(text, copied, text.bytes.size());
  budget.check_text(made.bytes.size());
  return made;
}

std::vector<ByteRange> split(std::string_view text, std::optional<std::string_view> separator,
                             int64_t max, Ends from) {
  if (!separator.has_value()) return split_at_blanks(text, max, from);
  std::vector<ByteRange> parts;
  size_t begin = 0;
  for (const size_t cut : positions_of(text, *separator, max, from)) {
    parts.push_back({begin, cut});
    begin = cut + separator->size();
  }
  parts.push_back({begin, text.size()});
  return parts;
}

std::vector<ByteRange> split_lines(std::string_view text, bool keep_ends) {
  std::vector<ByteRange> lines;
  size_t begin = 0;
  for (const Character& c : Characters(text)) {
    if (c.begin < begin || !is_line_break(c.value)) continue;  // Skips the "\n" of "\r\n".
    const size_t next = text.substr(c.begin).starts_with("\r\n") ? c.end + 1 : c.end;
    lines.push_back({begin, keep_ends ? next : c.begin});
    begin = next;
  }
  if (begin < text.size()) lines.push_back({begin, text.size()});
  return lines;
}

MarkedText pad(Budget& budget, const MarkedText& text, int64_t width, std::string_view fill,
               Ends padded) {
  const int64_t missing = std::max<int64_t>(width - count_characters(text.bytes), 0);
  const auto max = budget.limits().text_bytes;
  const auto added = static_cast<size_t>(std::min(missing, max + 1)) * fill.size();
  if (!budget.check_text(text.bytes.size() + added)) return {};
  budget.copy(4 * static_cast<size_t>(missing));
  // If the padding is uneven, str.center puts the larger half on the left for an odd width.
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
