// SPDX-License-Identifier: Apache-2.0
// The tokenizer's decoder already decodes streams; a Detokenizer adds the state of one sequence.
#include "coordinator/text/detokenizer/detokenizer.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep {

Detokenizer::Detokenizer(const Tokenizer* tokenizer, bool continues,
                         std::span<const int32_t> shown_special_ids)
    : tokenizer_(tokenizer),
      shown_special_ids_(shown_special_ids),
      state_(tokenizer->decoder().start(continues)) {}

std::string Detokenizer::push(int32_t id) {
  LOCKSTEP_CHECK(!finished_);
  std::string text;
  const bool skip_special = std::ranges::find(shown_special_ids_, id) == shown_special_ids_.end();
  const std::string* token = tokenizer_->shown_text(id, skip_special);
  if (token != nullptr) tokenizer_->decoder().push(*token, &state_, &text);
  return text;
}

std::string Detokenizer::finish() {
  LOCKSTEP_CHECK(!finished_);
  finished_ = true;
  std::string text;
  tokenizer_->decoder().finish(&state_, &text);
  return text;
}

}  // namespace lockstep
