// SPDX-License-Identifier: Apache-2.0
// One function per pattern; its alternatives are in the pattern's order.
#include "coordinator/text/regex/split_scanners.h"

#include <algorithm>
#include <array>

#include "coordinator/text/unicode/unicode.h"

namespace lockstep {
namespace {

enum class Kind : uint8_t { kLetter, kNumber, kSpace, kOther, kEnd };

struct Char {
  char32_t value;
  Kind kind;
  size_t end;
};

Kind kind_of(char32_t c) {
  if (is_space(c)) return Kind::kSpace;
  if (is_letter(c)) return Kind::kLetter;
  return is_number(c) ? Kind::kNumber : Kind::kOther;
}

Char char_at(std::string_view text, size_t offset) {
  static const std::array<Kind, 128> kAscii = [] {
    std::array<Kind, 128> kinds;
    for (char32_t c = 0; c < 128; ++c) kinds[c] = kind_of(c);
    return kinds;
  }();
  if (offset >= text.size()) return {0, Kind::kEnd, offset};
  const CodePoint point = code_point_at(text, offset);
  const Kind kind = point.value < 128 ? kAscii[point.value] : kind_of(point.value);
  return {point.value, kind, offset + point.bytes};
}

size_t run_end(std::string_view text, size_t offset, Kind kind) {
  for (Char c = char_at(text, offset); c.kind == kind; c = char_at(text, offset)) offset = c.end;
  return offset;
}

// 's, 't, 're, 've, 'm, 'll, 'd after an apostrophe; `begin` itself if there is none of them.
size_t contraction_end(std::string_view text, size_t begin, bool any_case) {
  if (text[begin] != '\'') return begin;
  const auto letter = [&](const Char& c) -> char32_t {
    if (any_case && c.value == 0x17F) return U's';  // The long s.
    return any_case && c.value >= 'A' && c.value <= 'Z' ? c.value + U' ' : c.value;
  };
  const Char first = char_at(text, begin + 1);
  switch (letter(first)) {
    case U's':
    case U't':
    case U'm':
    case U'd':
      return first.end;
    case U'r':
    case U'v': {
      const Char second = char_at(text, first.end);
      return letter(second) == U'e' ? second.end : begin;
    }
    case U'l': {
      const Char second = char_at(text, first.end);
      return letter(second) == U'l' ? second.end : begin;
    }
    default:
      return begin;
  }
}

// \s+(?!\S)|\s+ : the run of blanks, without its last one if the run is longer than one and text
// follows.
size_t blanks_end(std::string_view text, size_t begin) {
  const size_t end = run_end(text, begin, Kind::kSpace);
  if (end == text.size()) return end;
  const size_t last = end - code_point_before(text, end).bytes;
  return last > begin ? last : end;
}

bool is_newline(char32_t c) { return c == '\r' || c == '\n'; }

size_t scan_gpt2(std::string_view text, size_t begin) {
  const size_t contraction = contraction_end(text, begin, false);
  if (contraction > begin) return contraction;
  const Char first = char_at(text, begin);
  const Char head = first.value == ' ' ? char_at(text, first.end) : first;
  if (head.kind != Kind::kSpace && head.kind != Kind::kEnd) {
    return run_end(text, head.end, head.kind);
  }
  return blanks_end(text, begin);
}

template <int kMaxDigits>
size_t scan_llama3(std::string_view text, size_t begin) {
  const size_t contraction = contraction_end(text, begin, true);
  if (contraction > begin) return contraction;

  const Char first = char_at(text, begin);
  if (first.kind == Kind::kLetter) return run_end(text, first.end, Kind::kLetter);
  if (first.kind == Kind::kNumber) {
    size_t end = first.end;
    for (int digits = 1; digits < kMaxDigits; ++digits) {
      const Char next = char_at(text, end);
      if (next.kind != Kind::kNumber) break;
      end = next.end;
    }
    return end;
  }
  const Char second = char_at(text, first.end);
  if (second.kind == Kind::kLetter && !is_newline(first.value)) {
    return run_end(text, second.end, Kind::kLetter);
  }
  const Char head = first.value == ' ' ? second : first;
  if (head.kind == Kind::kOther) {
    size_t end = run_end(text, head.end, Kind::kOther);
    while (end < text.size() && is_newline(static_cast<unsigned char>(text[end]))) ++end;
    return end;
  }
  // \s*[\r\n]+ : up to the last line end of the run.
  const size_t end = run_end(text, begin, Kind::kSpace);
  const size_t newline = text.substr(begin, end - begin).find_last_of("\r\n");
  return newline != std::string_view::npos ? begin + newline + 1 : blanks_end(text, begin);
}

}  // namespace

Scanner find_scanner(std::string_view pattern) {
  struct Row {
    std::string_view pattern;
    Scanner scanner;
  };
  static constexpr std::array<Row, 4> kRows = {{
      {kGpt2Pattern, scan_gpt2},
      {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", scan_gpt2},
      {kLlama3Pattern, scan_llama3<3>},
      {kQwen2Pattern, scan_llama3<1>},
  }};
  const auto row = std::find_if(kRows.begin(), kRows.end(),
                                [&](const Row& candidate) { return candidate.pattern == pattern; });
  return row == kRows.end() ? nullptr : row->scanner;
}

}  // namespace lockstep
