// SPDX-License-Identifier: Apache-2.0
// What is asked of all ranks, and whether an answer fits it: a worker may send anything, and
// nothing of it is used before it was checked.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/candidates.h"
#include "proto/cluster.pb.h"

namespace lockstep {

inline constexpr int64_t kMaxWeightBytes = int64_t{1} << 50;  // Of one rank: more is no weight.

struct Question {
  enum class Kind { kReady, kStep, kLogits };
  Kind kind = Kind::kReady;
  uint64_t step = 0;
  int output = 0;                        // kLogits.
  std::vector<CandidateCounts> outputs;  // kStep.
  int64_t vocab = 0;
  bool trace = false;   // kStep: times of operators are wanted.
  bool values = false;  // kStep: what instructions made is wanted.
};

// A Step's or a LogitsRequest's.
Question question_of(const cluster::CoordinatorMessage& message, int64_t vocab);

// One line that says what was wanted and what was found. `instructions`: of the program of the rank
// that answers.
absl::Status check_answer(const Question& question, int instructions,
                          const cluster::WorkerMessage& answer);
absl::Status check_hello(const cluster::Hello& hello);
absl::Status check_progress(const cluster::LoadProgress& progress);
absl::Status check_preloaded(const cluster::Preloaded& preloaded);
// A worker's failure as it may go into a log. Never OK.
absl::Status status_of(const cluster::Failure& failure);

}  // namespace lockstep
