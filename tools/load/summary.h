// SPDX-License-Identifier: Apache-2.0
// A load's figures, computed from its records.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/load/record.h"

namespace lockstep {

// The bounds for a good request. Without any bound each answer is good.
struct Slo {
  std::optional<double> ttft_ms;
  std::optional<double> tpot_ms;
};

// Percentiles are by nearest rank: p90 is the smallest value that is at least as large as 90 % of
// all values.
struct Distribution {
  int64_t count = 0;
  double mean = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};
Distribution distribution_of(std::vector<double> values);

struct LoadFailure {
  int64_t count = 0;
  std::string example;  // The detail of the first failure.
};

struct LoadSummary {
  int64_t requests = 0;
  int64_t answered = 0;
  int64_t good = 0;       // Answered within the SLO.
  double duration_s = 0;  // From the first arrival to the last end.
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t uncounted = 0;  // Answers without usage: their events with text count as tokens.
  // These four are for answered requests. ttft: from the scheduled arrival to the first text; e2e:
  // to the end. tpot: a request's mean time per token after its first, for requests with two tokens
  // or more. gap: between events with text.
  Distribution ttft_ms, tpot_ms, gap_ms, e2e_ms;
  Distribution late_ms;  // For all: the delay from arrival to sending.
  std::map<std::string, LoadFailure> failures;

  double per_second(int64_t count) const;
};

LoadSummary summarize(std::span<const LoadRecord> records, const Slo& slo);

}  // namespace lockstep
