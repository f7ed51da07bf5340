// SPDX-License-Identifier: Apache-2.0
// Converts one sequence's generated tokens to text as they arrive.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "coordinator/text/tokenizer/decoder.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace lockstep {

// The joined pieces are exactly Tokenizer::decode(ids, skip_special true), with one difference:
// decode() drops a blank at the beginning, and here it is kept if the tokens continue another text.
// Every piece is well-formed UTF-8. The time for a token depends only on its own length, not on
// that of the sequence.
//
// Special tokens are left out, except those in `shown_special_ids`.
//
// One thread at a time; the tokenizer and `shown_special_ids` must outlive it. A copy continues
// from the same place, independently.
class Detokenizer {
 public:
  Detokenizer(const Tokenizer* tokenizer, bool continues,
              std::span<const int32_t> shown_special_ids = {});

  // The text that is now certain. Empty for special tokens, for ids without a token, and while a
  // character or a run of single-byte tokens is incomplete.
  std::string push(int32_t id);

  // Returns the text that was held back and ends the sequence: neither method may be called again.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::span<const int32_t> shown_special_ids_;
  Decoder::State state_;
  bool finished_ = false;
};

}  // namespace lockstep
