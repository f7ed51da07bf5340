// SPDX-License-Identifier: Apache-2.0
// From what the ranks replied to what the group's owner asked for. The core has checked that every
// reply is of the kind, step and size that was asked for.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// By rank.
std::vector<cluster::StepResult> results_of(std::vector<cluster::WorkerMessage> replies);
// Over the whole vocabulary. kUnavailable: the ranks' slices are not that many logits.
absl::StatusOr<std::vector<float>> logits_of(const std::vector<cluster::WorkerMessage>& replies,
                                             int64_t vocab);

}  // namespace lockstep
