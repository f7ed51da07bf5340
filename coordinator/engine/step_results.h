// SPDX-License-Identifier: Apache-2.0
// What the ranks answered to a step: checked before anything relies on it.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "coordinator/cluster/group.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// OK where every rank answers what `step` asked: its number, as many outputs, and each of them
// passes check_candidates().
absl::Status check_results(const std::vector<cluster::StepResult>& results,
                           const cluster::Step& step, const GroupInfo& group);

// OK where a scheduler can work with such a group.
absl::Status check_group(const GroupInfo& group);

}  // namespace lockstep
