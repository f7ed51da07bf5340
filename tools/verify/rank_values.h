// SPDX-License-Identifier: Apache-2.0
// A prompt run by a group, again and again until every instruction of every rank's program has
// given what it made: Step.values, some instructions at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cluster/group.h"
#include "proto/program.pb.h"

namespace lockstep {

// What one rank made of one value in one step, as float32 whatever its type.
struct RankValue {
  int instruction = 0;  // That made it; of a view, that made what it is a view of.
  int value = 0;        // Of the rank's program.
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<float> data;  // [rows, cols]
};

// Some rows of the prompt, and of each rank what consecutive instructions made of them.
struct RankValues {
  std::span<const int32_t> tokens;  // Of the step.
  int64_t first_row = 0;            // Of the prompt.
  bool last = false;                // The last instructions are among them.
  std::vector<std::vector<RankValue>> ranks;
  std::vector<cluster::StepResult> results;  // Outputs: every row's, with logits and best token.
};

// Runs `prompt` in steps of at most `rows` rows each and calls `take` with what was made: for
// instructions in ascending order, for all steps of the prompt each. The group has run nothing yet.
// kInvalidArgument: a step of so many rows makes too much at once; the group's and take's errors.
absl::Status run_for_values(std::span<const program::Program> programs,
                            std::span<const int32_t> prompt, int64_t rows, Group& group,
                            const std::function<absl::Status(const RankValues&)>& take);

}  // namespace lockstep
