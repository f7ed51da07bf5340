// SPDX-License-Identifier: Apache-2.0
// Unicode's tables, where Python's str looks at them. Polytonic Greek letters that become several
// ones in upper case are left to the simple mapping.
#include "coordinator/text/jinja/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "coordinator/text/unicode.h"

namespace lockstep::jinja {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Digits that are no decimals: superscripts, circled digits and the like.
constexpr Range kOtherDigits[] = {
    {0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
    {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
    {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
    {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
    {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A},
};

// Letters that are several ones in upper case.
struct LongUpper {
  char32_t letter;
  std::string_view upper;
};
constexpr LongUpper kLongUppers[] = {
    {0xDF, "SS"},
    {0x149, "ʼN"},
    {0x1F0, "J\u030C"},
    {0x390, "Ι\u0308\u0301"},
    {0x3B0, "Υ\u0308\u0301"},
    {0x587, "ԵՒ"},
    {0x1E96, "H\u0331"},
    {0x1E97, "T\u0308"},
    {0x1E98, "W\u030A"},
    {0x1E99, "Y\u030A"},
    {0x1E9A, "Aʾ"},
    {0xFB00, "FF"},
    {0xFB01, "FI"},
    {0xFB02, "FL"},
    {0xFB03, "FFI"},
    {0xFB04, "FFL"},
    {0xFB05, "ST"},
    {0xFB06, "ST"},
    {0xFB13, "ՄՆ"},
    {0xFB14, "ՄԵ"},
    {0xFB15, "ՄԻ"},
    {0xFB16, "ՎՆ"},
    {0xFB17, "ՄԽ"},
};

}  // namespace

bool is_blank(char32_t c) { return is_space(c) || (c >= 0x1C && c <= 0x1F); }

bool is_line_break(char32_t c) {
  return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_alphabetic(char32_t c) { return is_letter(c); }
bool is_decimal(char32_t c) { return category_of(c) == Category::kNd; }

bool is_digit(char32_t c) {
  const auto* range = std::ranges::lower_bound(kOtherDigits, c, {}, &Range::last);
  return is_decimal(c) || (range != std::end(kOtherDigits) && range->first <= c);
}

bool is_numeric(char32_t c) { return is_number(c); }

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

int64_t count_code_points(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

Case case_of(char32_t c) {
  // Letters of other categories that have a case: ordinals, modifiers, Roman and circled ones.
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
  const auto* found = std::ranges::lower_bound(kLongUppers, c, {}, &LongUpper::letter);
  if (found != std::end(kLongUppers) && found->letter == c) {
    const size_t first = code_point_at(found->upper, 0).bytes;
    const bool whole = wanted == Case::kUpper || c == 0x149;
    text->append(whole ? found->upper : found->upper.substr(0, first));
    for (size_t at = first; !whole && at < found->upper.size();) {
      const CodePoint point = code_point_at(found->upper, at);
      append_lowercase(point.value, text);
      at += point.bytes;
    }
    return;
  }
  const auto value = static_cast<utf8proc_int32_t>(c);
  const auto mapped = wanted == Case::kUpper ? utf8proc_toupper(value) : utf8proc_totitle(value);
  append_utf8(static_cast<char32_t>(mapped), text);
}

}  // namespace lockstep::jinja
