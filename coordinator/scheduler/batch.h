// SPDX-License-Identifier: Apache-2.0
// The rows that one step computes: planned() rows of each of its sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/scheduler/sequences/sequence.h"
#include "coordinator/scheduler/step_cost.h"
#include "proto/cluster.pb.h"

namespace lockstep {

struct Batch {
  // No sequence is listed twice. Each has pages for its planned rows.
  std::vector<Sequence*> sequences;
  int64_t rows = 0;    // The sum over all sequences.
  StepWork work = {};  // Determines the step's duration.
};

// The same message for every rank; outputs are in the order of the rows that need them.
cluster::Step make_step(const Batch& batch, uint64_t step);

}  // namespace lockstep
