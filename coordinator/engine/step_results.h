// SPDX-License-Identifier: Apache-2.0
// Checks the ranks' answers to a step before anything relies on them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cluster/group.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// OK if every rank's answer has the step's number and as many outputs as `step` asked for, and if
// each output passes check_candidates().
absl::Status check_results(const std::vector<cluster::StepResult>& results,
                           const cluster::Step& step, const GroupInfo& group);

// OK if a row has a logit for each id of the vocabulary. The ranks' slices of it passed
// check_candidates() one by one.
absl::Status check_row(const std::vector<float>& logits, uint64_t step, const GroupInfo& group);

// OK if the group's numbers are in a range with which a scheduler can work.
absl::Status check_group(const GroupInfo& group);

}  // namespace lockstep
