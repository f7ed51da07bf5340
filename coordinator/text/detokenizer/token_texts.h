// SPDX-License-Identifier: Apache-2.0
// Tokens as parts of their text: which characters each one shows, which bytes are its own.
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
  // The characters that end with this token. Empty where its bytes only begin or continue one:
  // that belongs to the token that completes it.
  std::string text;
  std::string bytes;   // Its own, blanks and parts of characters included.
  int64_t offset = 0;  // In characters of the text, where the token's own begin.
};

// The tokens of one text, one after the other. Their texts, joined, are the text that Detokenizer
// gives, without special tokens: these have a text that is no part of it, unless the text is known
// and has it. (A run of single-byte tokens that is not UTF-8 is U+FFFD for each byte in that text;
// here only from the first byte on that shows it. Offsets count as the text does.)
//
// One thread at a time; the tokenizer and the known text must outlive it.
class TokenTexts {
 public:
  // `continues`: other text comes before, so that the blank at the beginning is shown. `known`: the
  // text, where special tokens may be written in it.
  TokenTexts(const Tokenizer* tokenizer, bool continues, std::string_view known = {});

  TokenText push(int32_t id);
  // Another token in place of the one that comes next, as if the text ended with it. It completes a
  // character that has begun, or shows what it is alone.
  TokenText instead(int32_t id) const;
  // The texts of all: the first one comes next, the others are in its place.
  std::vector<TokenText> push_first(std::span<const int32_t> ids);

 private:
  // A special token's text, where it is what comes next in the known text; else null.
  const std::string* known_text(int32_t id) const;

  const Tokenizer* tokenizer_;
  std::string_view known_;  // From `shown_` on.
  Decoder::State text_;
  Decoder::State bytes_;
  std::string begun_;   // Bytes of a character that is not whole yet.
  int64_t shown_ = 0;   // Characters that are certain.
  int64_t offset_ = 0;  // Characters, those that are to come of tokens that came included.
};

}  // namespace lockstep
