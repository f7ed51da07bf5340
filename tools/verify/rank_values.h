// SPDX-License-Identifier: Apache-2.0
// Runs a prompt with a group repeatedly. Each run returns the values of some instructions
// (Step.values), until every instruction of every rank's program has returned its values.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cluster/group.h"
#include "proto/program.pb.h"

namespace lockstep {

// One rank's rows of one value in one step, converted to float32.
struct RankValue {
  // The instruction that made the value; for a view, that of the viewed value.
  int instruction = 0;
  int value = 0;  // In the rank's program.
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<float> data;  // [rows, cols]
};

// Some rows of the prompt and, by rank, the values that some consecutive instructions made from
// them.
struct RankValues {
  std::span<const int32_t> tokens;  // The tokens of the step.
  int64_t first_row = 0;            // In the prompt.
  bool last = false;                // The last instructions are included.
  std::vector<std::vector<RankValue>> ranks;
  std::vector<cluster::StepResult> results;  // By rank: each row's logits and best token.
};

// Runs `prompt` in steps of at most `rows` rows and calls `take` with the values: first those of
// the first instructions for all steps of the prompt, then those of the next instructions, and so
// on. The group must not have run anything. kInvalidArgument: one instruction makes too many bytes
// for `rows` rows, or the prompt does not fit the pages. Other errors are those of the group and of
// take().
absl::Status run_for_values(std::span<const program::Program> programs,
                            std::span<const int32_t> prompt, int64_t rows, Group& group,
                            const std::function<absl::Status(const RankValues&)>& take);

}  // namespace lockstep
