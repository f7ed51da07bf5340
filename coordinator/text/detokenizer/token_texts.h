// SPDX-License-Identifier: Apache-2.0
// Tokens as parts of their text: the characters that each token shows, and its own bytes.
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
  // The characters that this token completes. Empty if the token completes none: a character
  // belongs to the token with its last byte.
  std::string text;
  std::string bytes;   // Its own bytes, including blanks and parts of characters.
  int64_t offset = 0;  // The start of the token's characters, in characters of the text.
};

// The tokens of one text, one after the other. Their joined texts are the text that Detokenizer
// gives: a special token has no text, unless the text is known and has this token at this place.
// There is one difference: for a run of single-byte tokens that is not UTF-8, Detokenizer gives one
// U+FFFD per byte; here, only the bytes from the first invalid one on become U+FFFD. Offsets count
// as in Detokenizer's text.
//
// One thread at a time; the tokenizer and the known text must outlive it.
class TokenTexts {
 public:
  // `continues`: another text precedes, so the blank at the beginning is shown. `known`: the whole
  // text, needed if special tokens may be written in it.
  TokenTexts(const Tokenizer* tokenizer, bool continues, std::string_view known = {});

  TokenText push(int32_t id);
  // The text that `id` would have as the next token, if the whole text ended with it. The token's
  // bytes complete a character that has begun, or else stand alone. The state does not change.
  TokenText instead(int32_t id) const;
  // Pushes the first id and returns the texts of all ids; the others are alternatives to the first.
  std::vector<TokenText> push_first(std::span<const int32_t> ids);

 private:
  // A special token's text, if it is next in the known text; else null.
  const std::string* known_text(int32_t id) const;

  const Tokenizer* tokenizer_;
  std::string_view known_;  // The part after the certain text.
  Decoder::State text_;
  Decoder::State bytes_;
  std::string begun_;   // Bytes of an incomplete character.
  int64_t shown_ = 0;   // The number of characters that are certain.
  int64_t offset_ = 0;  // The next token's offset in characters, including uncertain ones.
};

}  // namespace lockstep
