// SPDX-License-Identifier: Apache-2.0
// The rows that one step computes: each of its sequences has planned() of them.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/scheduler/sequence.h"
#include "coordinator/scheduler/step_cost.h"
#include "proto/cluster.pb.h"

namespace lockstep {

struct Batch {
  std::vector<Sequence*> sequences;  // Each at most once; its pages have room for its rows.
  int64_t rows = 0;                  // Of all sequences.
  StepWork work = {};                // What decides how long it takes.
};

// The same message for every rank; outputs in the order of the rows that are wanted.
cluster::Step make_step(const Batch& batch, uint64_t step);

}  // namespace lockstep
