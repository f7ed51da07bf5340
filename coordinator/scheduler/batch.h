// SPDX-License-Identifier: Apache-2.0
// What one step computes: some rows of some sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "coordinator/scheduler/sequences/sequence.h"
#include "coordinator/scheduler/step_cost.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// Rows are the sequence's next tokens, from computed() on; its pages have room for them.
struct BatchItem {
  Sequence* sequence = nullptr;
  int64_t rows = 0;
};

struct Batch {
  std::vector<BatchItem> items;  // A sequence at most once.
  int64_t rows = 0;
  StepWork work = {};  // What decides how long it takes.
};

// Before the step runs: does the item compute its sequence's last token, whose logits draw the
// next?
inline bool computes_last(const BatchItem& item) { return item.rows == item.sequence->remaining(); }

// The same message for every rank; outputs in the order of the rows that are wanted.
cluster::Step make_step(const Batch& batch, uint64_t step);

}  // namespace lockstep
