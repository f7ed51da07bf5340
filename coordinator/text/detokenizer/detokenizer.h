// SPDX-License-Identifier: Apache-2.0
// Turns one sequence's generated tokens into text as they come.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "coordinator/text/tokenizer/decoder.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace lockstep {

// Pieces, joined, are exactly Tokenizer::decode(ids, skip_special true), except that a text that
// continues other text keeps the blank at its beginning, which decode drops as that of a whole
// text's first word. Every piece is well-formed UTF-8. A token takes time by its own length,
// however long the sequence is.
//
// Special tokens among `shown_special_ids` are shown nevertheless.
//
// One thread at a time; the tokenizer and the ids must outlive it. A copy continues from the same
// place, independently.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer* tokenizer, bool continues,
              std::span<const int32_t> shown_special_ids = {});

  // The text that is now certain: empty while a character, or a run of single-byte tokens, is
  // unfinished, and for special tokens and ids without a token.
  std::string push(int32_t id);

  // What was held back. The sequence is over: neither method may be called again.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::span<const int32_t> shown_special_ids_;
  Decoder::State state_;
  bool finished_ = false;
};

}  // namespace lockstep
