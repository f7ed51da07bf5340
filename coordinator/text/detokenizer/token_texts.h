// SPDX-License-Identifier: Apache-2.0
// Tokens as parts of their text: the characters that each one shows, and its own bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/tokenizer/decoder.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace lockstep {

struct TokenText {
  // The characters that end with this token. Empty if its bytes only begin or continue a character,
  // which belongs to the token that completes it.
  std::string text;
  std::string bytes;   // Its own bytes, including blanks and parts of characters.
  int64_t offset = 0;  // The offset in characters of the text where the token's own begin.
};

// The tokens of one text, one after the other. Their joined texts are the text that Detokenizer
// gives, without special tokens: the text of these is not part of it, unless the text is known and
// contains it. (In that text, a run of single-byte tokens that is not UTF-8 is one U+FFFD for each
// byte; here, only from the first byte that shows it. Offsets count as in the text.)
//
// One thread at a time; the tokenizer and the known text must outlive it.
class TokenTexts {
 public:
  // `continues`: other text is before, so the blank at the beginning is shown. `known`: the text,
  // if special tokens may be written in it.
  TokenTexts(const Tokenizer* tokenizer, bool continues, std::string_view known = {});

  TokenText push(int32_t id);
  // Another token instead of the next one, as if the text ended with it. It completes a character
  // that has begun, or shows its own text.
  TokenText instead(int32_t id) const;
  // The texts of all: the first id is the next token, the others are its alternatives.
  std::vector<TokenText> push_first(std::span<const int32_t> ids);

 private:
  // A special token's text, if it is next in the known text; else null.
  const std::string* known_text(int32_t id) const;

  const Tokenizer* tokenizer_;
  std::string_view known_;  // The rest from `shown_` on.
  Decoder::State text_;
  Decoder::State bytes_;
  std::string begun_;   // Bytes of an incomplete character.
  int64_t shown_ = 0;   // Characters that are certain.
  int64_t offset_ = 0;  // In characters, including those still to be shown of earlier tokens.
};

}  // namespace lockstep
