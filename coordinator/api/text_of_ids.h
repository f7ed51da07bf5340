// SPDX-License-Identifier: Apache-2.0
// The text of token ids that a caller sends.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/model/model.h"

namespace lockstep {

// The model's tokenizer. kFailedPrecondition: it has none.
absl::StatusOr<const Tokenizer*> tokenizer_of(const Model& model);

// kInvalidArgument, one line without the field's name: an id is not in the vocabulary, or the text
// is longer than kMaxMessageBytes.
absl::StatusOr<std::string> text_of_ids(const Model& model, std::span<const int32_t> ids,
                                        bool skip_special);

}  // namespace lockstep
