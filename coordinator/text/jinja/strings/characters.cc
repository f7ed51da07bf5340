// SPDX-License-Identifier: Apache-2.0
// Unicode's tables as Python's str uses them. Polytonic Greek letters whose upper case has several
// letters get only the simple mapping.
#include "coordinator/text/jinja/strings/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "coordinator/text/unicode/unicode.h"

namespace lockstep::jinja {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Digits that are not decimals: superscripts, circled digits and others.
constexpr Range kOtherDigits[] = {
    {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
    {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
    {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
    {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
    {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A},
};

bool is_polytonic(char32_t c) { return c >= 0x1F00 && c < 0x2000; }

bool begins_code_point(char byte) { return (byte & 0xC0) != 0x80; }

}  // namespace

Characters& Characters::read(size_t begin) {
  now_ = {0, begin, begin};
  if (begin < text_.size()) {
    const CodePoint point = code_point_at(text_, begin);
    now_ = {point.value, begin, begin + point.bytes};
  }
  return *this;
}

bool is_blank(char32_t c) { return is_space(c) || (c >= 0x1C && c <= 0x1F); }

bool is_line_break(char32_t c) {
  return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_decimal(char32_t c) { return category_of(c) == Category::kNd; }

bool is_digit(char32_t c) {
  const auto* range = std::ranges::lower_bound(kOtherDigits, c, {}, &Range::last);
  return is_decimal(c) || (range != std::end(kOtherDigits) && range->first <= c);
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= ' ';
  const Category category = category_of(c);
  return category != Category::kCn && category < Category::kZs;
}

size_t blanks_end(std::string_view text, size_t begin) {
  size_t end = begin;
  while (end < text.size()) {
    const CodePoint point = code_point_at(text, end);
    if (!is_blank(point.value)) break;
    end += point.bytes;
  }
  return end;
}

size_t blanks_begin(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    const CodePoint point = code_point_before(text, begin);
    if (!is_blank(point.value)) break;
    begin -= point.bytes;
  }
  return begin;
}

size_t byte_offset(std::string_view text, int64_t code_point) {
  size_t at = 0;
  for (int64_t left = code_point; at < text.size(); ++at) {
    if (begins_code_point(text[at]) && left-- == 0) break;
  }
  return at;
}

std::vector<size_t> byte_offsets(std::string_view text) {
  std::vector<size_t> offsets;
  for (size_t at = 0; at < text.size(); ++at) {
    if (begins_code_point(text[at])) offsets.push_back(at);
  }
  offsets.push_back(text.size());
  return offsets;
}

std::string_view clipped(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && !begins_code_point(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

Case case_of(char32_t c) {
  // Letters of other categories that have a case: ordinals, modifiers, Roman and circled letters.
  const bool lower = c == 0xAA || c == 0xBA || (c >= 0x2B0 && c <= 0x2B8) || c == 0x2C0 ||
                     c == 0x2C1 || (c >= 0x2E0 && c <= 0x2E4) || (c >= 0x2170 && c <= 0x217F) ||
                     (c >= 0x24D0 && c <= 0x24E9);
  if (lower) return Case::kLower;
  if ((c >= 0x2160 && c <= 0x216F) || (c >= 0x24B6 && c <= 0x24CF)) return Case::kUpper;
  switch (category_of(c)) {
    case Category::kLl:
      return Case::kLower;
    case Category::kLu:
      return Case::kUpper;
    case Category::kLt:
      return Case::kTitle;
    default:
      return Case::kNone;
  }
}

void append_cased(char32_t c, Case wanted, std::string* text) {
  if (wanted == Case::kLower) {
    append_lowercase(c, text);
    return;
  }
  const auto value = static_cast<utf8proc_int32_t>(c);
  const auto mapped = wanted == Case::kUpper ? utf8proc_toupper(value) : utf8proc_totitle(value);
  // A lower-case letter without a capital may fold to several letters, like the German sharp s.
  utf8proc_int32_t folded[4];
  int boundary = 0;
  const bool may_fold =
      (mapped == value || c == 0xDF) && case_of(c) == Case::kLower && !is_polytonic(c);
  const auto count = may_fold ? utf8proc_decompose_char(value, folded, std::size(folded),
                                                        UTF8PROC_CASEFOLD, &boundary)
                              : 1;
  if (count <= 1) return append_utf8(static_cast<char32_t>(mapped), text);
  for (int i = 0; i < count; ++i) {
    const bool is_lower = i > 0 && wanted == Case::kTitle && c != 0x149;
    append_cased(static_cast<char32_t>(folded[i]), is_lower ? Case::kLower : Case::kUpper, text);
  }
}

}  // namespace lockstep::jinja
