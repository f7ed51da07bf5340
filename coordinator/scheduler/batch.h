// SPDX-License-Identifier: Apache-2.0
// The rows of sequences that one step computes.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/scheduler/sequences/sequence.h"
#include "coordinator/scheduler/step_cost.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// The rows are the sequence's next tokens, from computed() on; its pages have room for them.
struct BatchItem {
  Sequence* sequence = nullptr;
  int64_t rows = 0;
};

struct Batch {
  std::vector<BatchItem> items;  // Each sequence at most once.
  int64_t rows = 0;
  StepWork work = {};  // Determines the step's duration.
};

// Call before the step runs: whether the item computes its sequence's last token, whose logits draw
// the next.
inline bool computes_last(const BatchItem& item) { return item.rows == item.sequence->remaining(); }

// The same message for every rank; outputs are in the order of the rows that need them.
cluster::Step make_step(const Batch& batch, uint64_t step);

}  // namespace lockstep
