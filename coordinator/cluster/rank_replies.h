// SPDX-License-Identifier: Apache-2.0
// Converts the ranks' replies to the results for the group's owner. The core has checked each
// reply's kind, step and size.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// The steps' results, by rank.
std::vector<cluster::StepResult> results_of(std::vector<cluster::WorkerMessage> replies);
// The logits over the whole vocabulary. kUnavailable: the ranks' slices together have another size.
absl::StatusOr<std::vector<float>> logits_of(const std::vector<cluster::WorkerMessage>& replies,
                                             int64_t vocab);

}  // namespace lockstep
