// SPDX-License-Identifier: Apache-2.0
// The requests of a load, drawn one after the other from a seed.
#pragma once

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tools/load/lengths.h"
#include "tools/load/trace.h"

namespace lockstep {

struct WorkloadOptions {
  double rate = 0;                // Requests per second, Poisson; 0: as fast as clients send.
  std::vector<TraceEntry> trace;  // If not empty, replaces rate, lengths and requests.
  // Used in place of drawn words: in order, and then again from the start.
  std::vector<std::string> prompts;
  Lengths prompt_tokens{128};
  Lengths output_tokens{128};
  int64_t requests = 0;  // The number of requests; 0: no limit.
  uint64_t seed = 1;
};

struct LoadRequest {
  double at_s = 0;  // Its arrival, since the start.
  std::string prompt;
  int64_t max_tokens = 0;
};

// The same options give the same requests. Arrivals and texts are drawn separately: another rate
// gives the same texts.
class Workload {
 public:
  explicit Workload(WorkloadOptions options);

  // Nullopt: no more requests.
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
