// SPDX-License-Identifier: Apache-2.0
// Continuous batching with chunked prefill (Orca, Yu et al., 2022; Sarathi, Agrawal et al., 2023)
// over paged KV (vLLM, Kwon et al., 2023): which sequences compute which rows next.
//
// Sequences are served first come, first served. Every running sequence computes one row a step
// once its prompt is done; what is left of a step's rows is prompt, oldest first. Pages are taken
// when they are needed; where none is free, the youngest running sequence gives up all of its own
// and goes to the front of the queue. So the oldest one always goes on, and there is no deadlock.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "coordinator/scheduler/batch.h"
#include "coordinator/scheduler/pages.h"
#include "coordinator/scheduler/sequence.h"

namespace lockstep {

struct SchedulerLimits {
  int64_t rows = 0;           // Of a step.
  int64_t prefill_chunk = 0;  // Of those, rows of prompts (and of what is computed again).
  int64_t running = 0;        // Sequences that hold pages at once.
  int64_t outputs = 0;        // Of a step.
  int64_t pages = 0;
  int64_t page_tokens = 0;
};

// Owns the pages, not the sequences: a sequence is removed before it goes away. Used by the
// engine's thread alone. A sequence's tokens fit into all pages together: else it would never run.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  // Puts it at the end of the queue.
  void add(Sequence* sequence);
  // It is finished, or cancelled: its pages are free at once.
  void remove(Sequence* sequence);
  // The next step, empty where nothing waits or runs. Takes pages for it; the caller then runs it
  // and advances each sequence.
  Batch schedule();

  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  const PageAllocator& pages() const { return pages_; }
  int64_t preemptions() const { return preemptions_; }

 private:
  // Rows that each running sequence may compute, by its index; what they leave of the chunk.
  std::vector<int64_t> share_rows(int64_t* prefill_rows) const;
  // Pages for `rows` more rows of running_[index], from younger ones where need be; how many rows
  // there is room for.
  int64_t reserve(size_t index, int64_t rows);
  void preempt_youngest();
  // Starts waiting sequences, oldest first, while rows and pages for all their tokens are left.
  void admit(int64_t prefill_rows, Batch* batch);

  void free_slot(const Sequence& sequence) { free_slots_.push_back(sequence.slot()); }

  SchedulerLimits limits_;
  PageAllocator pages_;
  std::vector<int32_t> free_slots_;  // The last is given out first.
  // Every sequence in running_ is older than every one in waiting_, and both are in order of age.
  std::vector<Sequence*> running_;
  std::deque<Sequence*> waiting_;
  int64_t preemptions_ = 0;
};

}  // namespace lockstep
