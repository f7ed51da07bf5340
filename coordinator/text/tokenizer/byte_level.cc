// SPDX-License-Identifier: Apache-2.0
// Visible Latin-1 characters map to themselves, the other 68 bytes to U+0100 and above, in order.
#include "coordinator/text/tokenizer/byte_level.h"

#include <array>

#include "coordinator/text/unicode/unicode.h"

namespace lockstep {
namespace {

constexpr bool is_visible(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> characters{};
  std::array<int, 0x144> bytes{};  // By character; -1: there is none.
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (int& byte : alphabet.bytes) byte = -1;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t character = is_visible(byte) ? static_cast<char32_t>(byte) : next++;
    alphabet.characters[static_cast<size_t>(byte)] = character;
    alphabet.bytes[character] = byte;
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string to_byte_level(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    append_utf8(kAlphabet.characters[static_cast<unsigned char>(byte)], &text);
  }
  return text;
}

void append_byte_level_decoded(std::string_view text, std::string* bytes) {
  const size_t before = bytes->size();
  for (size_t offset = 0; offset < text.size();) {
    const CodePoint point = code_point_at(text, offset);
    const int byte = point.value < kAlphabet.bytes.size() ? kAlphabet.bytes[point.value] : -1;
    if (byte < 0) {
      bytes->resize(before);
      bytes->append(text);
      return;
    }
    bytes->push_back(static_cast<char>(byte));
    offset += point.bytes;
  }
}

}  // namespace lockstep
