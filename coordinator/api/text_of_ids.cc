// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/text_of_ids.h"

#include "base/status.h"
#include "coordinator/api/limits.h"

namespace lockstep {

absl::StatusOr<const Tokenizer*> tokenizer_of(const Model& model) {
  if (model.tokenizer() != nullptr) return model.tokenizer();
  return failed_precondition("{}", model.without_tokenizer());
}

absl::StatusOr<std::string> text_of_ids(const Model& model, std::span<const int32_t> ids,
                                        bool skip_special) {
  ASSIGN_OR_RETURN(const Tokenizer* tokenizer, tokenizer_of(model));
  const int64_t vocabulary = model.config().vocab_size;
  for (const int32_t id : ids) {
    if (0 <= id && id < vocabulary) continue;
    return invalid_argument("must be token ids of 0 to {}, found {}", vocabulary - 1, id);
  }
  std::string text = tokenizer->decode(ids, skip_special, kMaxMessageBytes);
  if (static_cast<int64_t>(text.size()) <= kMaxMessageBytes) return text;
  return invalid_argument("must have a text of at most {} bytes, found more; send less at once",
                          kMaxMessageBytes);
}

}  // namespace lockstep
