// SPDX-License-Identifier: Apache-2.0
// Decode steps in few shapes. A step with one row per sequence is padded with meaningless rows, so
// that the work of a device depends only on the step's bucket.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "proto/program.pb.h"
#include "worker/kernels/kernel.h"
#include "worker/steps/state_room.h"

namespace lockstep {

// The maximum number of rows of a padded step: padding does not make larger steps faster.
inline constexpr int64_t kMaxPaddedRows = 256;
// The bucket of `rows`: 1, 2, 4 ... 64, then multiples of 64; less than twice `rows`, and at most
// `max`.
int64_t padded_rows(int64_t rows, int64_t max);
// The bucket of the longest sequence's number of positions, for attention: 256, 512, 1024 ...
int64_t padded_positions(int64_t positions);

// For one thread at a time.
class PaddedStep {
 public:
  explicit PaddedStep(const program::Limits& limits);

  // Padding rows write to the room's spare page and block.
  void use(const StateRoom& room);
  // From now on steps of more rows are not padded.
  void pad_up_to(int64_t rows) { max_ = std::min(rows, limit_); }

  // A step with the bucket's number of rows, sequences and outputs. First come those of `step`,
  // whose pointers are used. Then come sequences of one row at position 0, all with the same token,
  // and outputs that request nothing. The rows of `step` do not depend on padding rows. Null:
  // `step` is not padded, because it has rows of prompts, embeddings, too many rows or none, or
  // because there is no spare page. Valid until the next call.
  StepView* take(const StepView& step);

 private:
  const int64_t limit_;
  int64_t max_ = limit_;
  int32_t page_ = 0;
  int64_t slot_ = 0;
  bool has_spare_ = false;
  std::vector<int32_t> tokens_, positions_, sequence_of_row_, output_rows_;
  std::vector<StepSequence> sequences_;
  std::vector<OutputSpec> outputs_;
  StepView view_;
};

}  // namespace lockstep
