// SPDX-License-Identifier: Apache-2.0
// What a rank answers for one row, its slice of the vocabulary: candidates, sums, logits.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// Of a number that a rank answers. kInvalidArgument: it is not one of `least` to `most`.
absl::Status check_range(std::string_view name, int64_t found, int64_t least, int64_t most);

// How many candidates an output asks each rank for, at most.
struct CandidateCounts {
  int top = 0;
  int raw_top = 0;
  int raw_ids = 0;
};
CandidateCounts counts_of(const cluster::Output& output);

// OK where the answer fits a vocabulary of `vocab` ids and has no more candidates than were asked
// for. Numbers may be anything, NaN included. kInvalidArgument names the field.
absl::Status check_candidates(const cluster::Candidates& found, const CandidateCounts& asked,
                              int64_t vocab);
// Of a slice's logits as bytes of float32; a slice may be empty.
absl::Status check_logits(std::string_view bytes, int64_t vocab);

// One row's logits from the ranks' slices, in rank order, each of which passed check_logits().
std::vector<float> join_logits(std::span<const std::string_view> slices);

}  // namespace lockstep
