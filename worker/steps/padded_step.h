// SPDX-License-Identifier: Apache-2.0
// Steps that generate, in few shapes: one whose sequences have a row each is filled up with rows
// that mean nothing, so that what a device is given to do depends on a bucket alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "proto/program.pb.h"
#include "worker/kernels/kernel.h"
#include "worker/steps/state_room.h"

namespace lockstep {

// More rows are worth their launches.
inline constexpr int64_t kMostPaddedRows = 256;
// 1, 2, 4 ... 64, then multiples of 64: less than twice the rows, and `most` at most.
int64_t padded_rows(int64_t rows, int64_t most);
// The longest sequence's positions, 256, 512, 1024 ...: attention has a part for so many keys.
int64_t padded_positions(int64_t positions);

// One thread at a time.
class PaddedStep {
 public:
  explicit PaddedStep(const program::Limits& limits);

  // Rows that fill up write to the spare page and block.
  void use(const StateRoom& room);
  // Steps of more rows go as they are from now on.
  void pad_up_to(int64_t rows) { most_ = std::min(rows, limit_); }

  // As many rows, sequences and outputs as the bucket has: first those of `step`, whose pointers
  // are used, then sequences of one row at position 0, with one token, and outputs of which nothing
  // is wanted. Nothing of the step's own rows depends on the others. Null: the step goes as it is,
  // for it has rows of prompts, embeddings, too many rows or none, or there is no spare page. Valid
  // until the next call.
  StepView* take(const StepView& step);

 private:
  const int64_t limit_;
  int64_t most_ = limit_;
  int32_t page_ = 0;
  int64_t slot_ = 0;
  bool has_spare_ = false;
  std::vector<int32_t> tokens_, positions_, sequence_of_row_, output_rows_;
  std::vector<StepSequence> sequences_;
  std::vector<OutputRequest> outputs_;
  StepView view_;
};

}  // namespace lockstep
