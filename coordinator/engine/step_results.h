// SPDX-License-Identifier: Apache-2.0
// Checks the ranks' answers to a step before anything relies on them.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "coordinator/cluster/group.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// OK if every rank answers what `step` asked: its number and the number of outputs, each of which
// passes check_candidates().
absl::Status check_results(const std::vector<cluster::StepResult>& results,
                           const cluster::Step& step, const GroupInfo& group);

// OK if a scheduler can work with such a group.
absl::Status check_group(const GroupInfo& group);

}  // namespace lockstep
