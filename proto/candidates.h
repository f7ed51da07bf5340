// SPDX-License-Identifier: Apache-2.0
// A rank's answer for one row and the rank's slice of the vocabulary: candidates, sums, logits.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// Checks a number in a rank's answer. kInvalidArgument: it is not in `min` to `max`.
absl::Status check_range(std::string_view name, int64_t found, int64_t min, int64_t max);

// The max number of candidates that an output requests from each rank.
struct CandidateCounts {
  int top = 0;
  int raw_top = 0;
  int raw_ids = 0;
};
CandidateCounts counts_of(const cluster::Output& output);

// OK if the answer fits a vocabulary of `vocab` ids and has at most the requested candidates.
// Numbers may have any value, including NaN. kInvalidArgument names the field.
absl::Status check_candidates(const cluster::Candidates& found, const CandidateCounts& asked,
                              int64_t vocab);
// Checks a slice's logits, as bytes of float32; a slice may be empty.
absl::Status check_logits(std::string_view bytes, int64_t vocab);

// One row's logits from the ranks' slices, in rank order; each passed check_logits().
std::vector<float> join_logits(std::span<const std::string_view> slices);

}  // namespace lockstep
