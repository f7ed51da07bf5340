// SPDX-License-Identifier: Apache-2.0
// One case of `lockstep bench`: a prompt, or decode steps after a prompt.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/service.h"

namespace lockstep {

// `batch` sequences at once: prompts of `prompt_tokens`, then `decode_steps` steps in which each
// sequence gets one token. With 0 decode steps only the prompts are computed.
struct BenchCase {
  std::string name;
  int64_t prompt_tokens = 1;
  int64_t decode_steps = 0;
  int64_t batch = 1;

  // Tokens that the timed part computes.
  int64_t tokens() const { return batch * (decode_steps > 0 ? decode_steps : prompt_tokens); }
};

// "prefill:512", "decode:128" (after a prompt of one token), "decode:128@4096" (after 4096 tokens),
// each optionally with "x8" at its end for 8 sequences at once; separated by commas.
absl::StatusOr<std::vector<BenchCase>> parse_bench_cases(const std::string& list);

// kInvalidArgument if the model was opened for shorter or fewer sequences.
absl::Status check_fits(const BenchCase& bench_case, const Model& model);

// Seconds until the last sequence had its first token, and seconds of the decode steps after that.
struct BenchTimes {
  double prefill_s = 0;
  double decode_s = 0;

  double timed(const BenchCase& of) const { return of.decode_steps > 0 ? decode_s : prefill_s; }
};

// Runs the case once, with the same engine that serves. Prompts are artificial, decoding is greedy.
absl::StatusOr<BenchTimes> run_case(const BenchCase& bench_case, InferenceService& service);

}  // namespace lockstep
