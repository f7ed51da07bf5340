// SPDX-License-Identifier: Apache-2.0
// The requests of a load, drawn from a seed one after the other.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tools/load/lengths.h"
#include "tools/load/trace.h"

namespace lockstep {

struct WorkloadOptions {
  double rate = 0;                   // Requests per second, Poisson; 0: as soon as they are taken.
  std::vector<TraceEntry> trace;     // In place of rate, lengths and requests, if not empty.
  std::vector<std::string> prompts;  // In turn, in place of prompts of drawn words.
  Lengths prompt_tokens{128};
  Lengths output_tokens{128};
  int64_t requests = 0;  // How many; 0: no end.
  uint64_t seed = 1;
};

struct LoadRequest {
  double at_s = 0;  // When it arrives, since the start.
  std::string prompt;
  int64_t max_tokens = 0;
};

// The same requests for the same options. Arrivals and texts are drawn apart: another rate brings
// the same texts.
class Workload {
 public:
  explicit Workload(WorkloadOptions options);

  // nullopt: that was all.
  std::optional<LoadRequest> next();

 private:
  LoadRequest next_of_trace();
  std::string draw_prompt(int64_t tokens);

  WorkloadOptions options_;
  std::mt19937_64 arrivals_;
  std::mt19937_64 texts_;
  int64_t made_ = 0;
  double at_s_ = 0;
};

}  // namespace lockstep
