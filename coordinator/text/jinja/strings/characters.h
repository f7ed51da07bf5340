// SPDX-License-Identifier: Apache-2.0
// Characters as in Python's str: blanks, digits and cases. Functions on texts require well-formed
// UTF-8. Python counts code points; we count bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::jinja {

// A code point at bytes [begin, end) of a text.
struct Character {
  char32_t value;
  size_t begin;
  size_t end;
};

// The characters of a text, for a range-for. The text must outlive this object.
class Characters {
 public:
  explicit Characters(std::string_view text) : text_(text) { read(0); }
  Characters begin() const { return *this; }
  static std::default_sentinel_t end() { return {}; }
  bool operator!=(std::default_sentinel_t) const { return now_.begin < text_.size(); }
  Characters& operator++() { return read(now_.end); }
  const Character& operator*() const { return now_; }

 private:
  Characters& read(size_t begin);

  std::string_view text_;
  Character now_ = {};
};

bool is_blank(char32_t c);       // str.isspace(); the characters that strip() and split() remove.
bool is_line_break(char32_t c);  // splitlines() splits at these.
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_printable(char32_t c);  // repr() shows it unchanged.

// The end of the blanks that begin at `begin`, and the beginning of those at the text's end.
size_t blanks_end(std::string_view text, size_t begin);
size_t blanks_begin(std::string_view text);

// The byte at which the code point of this index begins; the text's size if the index is the text's
// length. Takes time proportional to the index.
size_t byte_offset(std::string_view text, int64_t code_point);
// The same for all code points, and the text's size at the end.
std::vector<size_t> byte_offsets(std::string_view text);

// At most `bytes` bytes of a text, cut between code points.
std::string_view clipped(std::string_view text, size_t bytes);

enum class Case : uint8_t { kNone, kLower, kUpper, kTitle };
Case case_of(char32_t c);

// Appends the character's form in the case `wanted`; a form may have several characters. The caller
// handles the final sigma.
void append_cased(char32_t c, Case wanted, std::string* text);

}  // namespace lockstep::jinja
