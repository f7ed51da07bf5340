// SPDX-License-Identifier: Apache-2.0
// The question to all ranks, and the check of their answers. A worker may send anything, so nothing
// is used before it is checked.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/candidates.h"
#include "proto/cluster.pb.h"

namespace lockstep {

inline constexpr int64_t kMaxWeightBytes = int64_t{1} << 50;  // Max for one rank.

struct Question {
  enum class Kind { kReady, kStep, kLogits };
  Kind kind = Kind::kReady;
  uint64_t step = 0;
  int output = 0;                        // kLogits.
  std::vector<CandidateCounts> outputs;  // kStep.
  int64_t vocab = 0;
  bool trace = false;   // kStep: ranks report their operators' times.
  bool values = false;  // kStep: ranks report instructions' values.
};

// The question of a Step or a LogitsRequest.
Question question_of(const cluster::CoordinatorMessage& message, int64_t vocab);

// An error is one line that names the expected and the found value. `instructions`: the number of
// instructions in the program of the rank that answers.
absl::Status check_answer(const Question& question, int instructions,
                          const cluster::WorkerMessage& answer);
absl::Status check_hello(const cluster::Hello& hello);
absl::Status check_progress(const cluster::LoadProgress& progress);
absl::Status check_preloaded(const cluster::Preloaded& preloaded);
// A worker's failure, safe to log. Never OK.
absl::Status status_of(const cluster::Failure& failure);

}  // namespace lockstep
