// SPDX-License-Identifier: Apache-2.0
// Reads UTF-8 by the table of well-formed sequences of the Unicode Standard (3-7). Categories are
// utf8proc's, with later assignments of Unicode.
#include "coordinator/text/unicode/unicode.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace lockstep {
namespace {

static_assert(static_cast<int>(Category::kLo) == UTF8PROC_CATEGORY_LO);
static_assert(static_cast<int>(Category::kNo) == UTF8PROC_CATEGORY_NO);
static_assert(static_cast<int>(Category::kPo) == UTF8PROC_CATEGORY_PO);
static_assert(static_cast<int>(Category::kCo) == UTF8PROC_CATEGORY_CO);

constexpr std::string_view kCategoryNames =
    "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCo";

uint8_t byte_at(std::string_view text, size_t offset) { return static_cast<uint8_t>(text[offset]); }

// The length that a lead byte defines (0: none) and the range of its second byte.
struct Lead {
  size_t bytes;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

struct LowercaseRange {
  char32_t first;
  char32_t last;
  char32_t first_lower;
};

// Letters that are newer than utf8proc's tables.
constexpr LowercaseRange kNewLowercase[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x0264}, {0xA7CC, 0xA7CC, 0xA7CD},
    {0xA7CE, 0xA7CE, 0xA7CF},    {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5},
    {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x019B}, {0x10D50, 0x10D65, 0x10D70},
    {0x16EA0, 0x16EB8, 0x16EBB},
};

// Characters of category So that are Alphabetic: circled and squared letters.
bool is_symbol_letter(char32_t c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

}  // namespace

Utf8Sequence first_sequence(std::string_view bytes) {
  LOCKSTEP_CHECK(!bytes.empty());
  const Lead lead = lead_of(byte_at(bytes, 0));
  if (lead.bytes == 0) return {Utf8Sequence::Kind::kBroken, 1};
  for (size_t i = 1; i < lead.bytes; ++i) {
    if (i == bytes.size()) return {Utf8Sequence::Kind::kCut, i};
    const uint8_t byte = byte_at(bytes, i);
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {Utf8Sequence::Kind::kBroken, i};
  }
  return {Utf8Sequence::Kind::kWhole, lead.bytes};
}

std::optional<size_t> first_invalid_utf8(std::string_view text) {
  for (size_t offset = 0; offset < text.size();) {
    if (byte_at(text, offset) < 0x80) {
      ++offset;
      continue;
    }
    const Utf8Sequence sequence = first_sequence(text.substr(offset));
    if (sequence.kind != Utf8Sequence::Kind::kWhole) return offset;
    offset += sequence.bytes;
  }
  return std::nullopt;
}

std::string take_characters(std::string* bytes, bool is_end, Replaces replaces) {
  std::string text;
  size_t offset = 0;
  while (offset < bytes->size()) {
    const auto rest = std::string_view(*bytes).substr(offset);
    const Utf8Sequence sequence = first_sequence(rest);
    if (sequence.kind == Utf8Sequence::Kind::kCut && !is_end) break;
    if (sequence.kind == Utf8Sequence::Kind::kWhole) {
      text += rest.substr(0, sequence.bytes);
    } else {
      const size_t count = replaces == Replaces::kBytes ? sequence.bytes : 1;
      for (size_t i = 0; i < count; ++i) text += kReplacement;
    }
    offset += sequence.bytes;
  }
  bytes->erase(0, offset);
  return text;
}

int64_t count_characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; });
}

CodePoint code_point_at(std::string_view text, size_t offset) {
  const uint8_t lead = byte_at(text, offset);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  LOCKSTEP_CHECK(offset + bytes <= text.size());
  char32_t value = lead & (0x7F >> bytes);
  for (size_t i = 1; i < bytes; ++i) value = value << 6 | (byte_at(text, offset + i) & 0x3F);
  return {value, bytes};
}

CodePoint code_point_before(std::string_view text, size_t offset) {
  LOCKSTEP_CHECK(offset > 0);
  size_t begin = offset - 1;
  while (begin > 0 && (byte_at(text, begin) & 0xC0) == 0x80) --begin;
  return code_point_at(text, begin);
}

void append_utf8(char32_t code_point, std::string* text) {
  if (code_point < 0x80) {
    text->push_back(static_cast<char>(code_point));
    return;
  }
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  text->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

Category category_of(char32_t code_point) {
  const auto value = static_cast<utf8proc_int32_t>(code_point);
  const auto category = static_cast<Category>(utf8proc_category(value));
  if (category != Category::kCn) return category;
  const auto newer = assigned_after_unicode_14();
  const auto range =
      std::lower_bound(newer.begin(), newer.end(), code_point,
                       [](const CategoryRange& a, char32_t wanted) { return a.last < wanted; });
  if (range == newer.end() || range->first > code_point) return category;
  return range->category;
}

bool is_category_name(std::string_view name) {
  if (name.size() != 1 && name.size() != 2) return false;
  for (size_t i = 0; i < kCategoryNames.size(); i += 2) {
    if (kCategoryNames.substr(i, name.size()) == name) return true;
  }
  return false;
}

bool is_in(Category category, std::string_view name) {
  return kCategoryNames.substr(static_cast<size_t>(category) * 2, name.size()) == name;
}

bool is_letter(char32_t code_point) {
  const Category category = category_of(code_point);
  return category >= Category::kLu && category <= Category::kLo;
}

bool is_number(char32_t code_point) {
  const Category category = category_of(code_point);
  return category >= Category::kNd && category <= Category::kNo;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_numeric(char32_t c) {
  return is_number(c) || (c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6);
}

bool is_word(char32_t c) { return is_pattern_word(c) || c == 0x200C || c == 0x200D; }

bool is_pattern_word(char32_t c) {
  const Category category = category_of(c);
  return is_in(category, "L") || is_in(category, "M") || category == Category::kNd ||
         category == Category::kNl || category == Category::kPc || is_symbol_letter(c);
}

void append_lowercase(char32_t code_point, std::string* text) {
  if (code_point == 0x130) {  // The only letter whose lower case is two code points.
    text->append("i\xCC\x87");
    return;
  }
  for (const LowercaseRange& range : kNewLowercase) {
    if (code_point >= range.first && code_point <= range.last) {
      append_utf8(range.first_lower + (code_point - range.first), text);
      return;
    }
  }
  const auto lower = utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point));
  append_utf8(static_cast<char32_t>(lower), text);
}

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line.push_back(c);
    }
  }
  return line;
}

}  // namespace lockstep
