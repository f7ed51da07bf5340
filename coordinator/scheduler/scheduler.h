// SPDX-License-Identifier: Apache-2.0
// Continuous batching with chunked prefill (Orca, Yu et al., 2022; Sarathi, Agrawal et al., 2023)
// over paged KV (vLLM, Kwon et al., 2023): which sequences compute which rows next.
//
// Sequences are served first come, first served. Every running sequence computes one row a step
// once its prompt is done; what is left of a step's rows, and of its time while others decode
// (step_cost.h), is prompt, oldest first. Pages are taken
// when they are needed, those that only the prefix tree has included (kv_pages.h); where there is
// none, the youngest running sequence gives up all of its own and goes back to the queue.
//
// There is no deadlock: a running sequence is only preempted for an older one, so that the oldest
// that runs computes a row in every step and ends. Alone, it has room: its tokens fit into all
// pages together, and pages of the tree that it does not use are available to it.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "coordinator/scheduler/batch.h"
#include "coordinator/scheduler/kv_pages.h"
#include "coordinator/scheduler/sequence.h"

namespace lockstep {

struct SchedulerLimits {
  int64_t rows = 0;           // Of a step.
  int64_t prefill_chunk = 0;  // Of those, rows of prompts (and of what is computed again).
  int64_t running = 0;        // Sequences that hold pages at once.
  int64_t outputs = 0;        // Of a step.
  int64_t pages = 0;
  int64_t page_tokens = 0;
  // That a step in which sequences decode is to take; prompts get what decoding leaves of it, and
  // kMinPromptRows rows at least. 0: as long as it takes.
  int64_t step_budget_ns = 0;
  PrefixOptions prefix = {};
};

inline constexpr int64_t kMinPromptRows = 16;

// Owns the pages, not the sequences: a sequence is removed before it goes away. Used by the
// engine's thread alone. A sequence's tokens fit into all pages together: else it would never run.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  // Puts the choices of one request into the queue. Where they can share pages, all but the first
  // one wait until it has computed the prompt, and then compute only what is not shared.
  void add(std::span<Sequence* const> choices);
  // It is finished, or cancelled: its pages are available at once. Of choices that are removed
  // together, the first one comes first.
  void remove(Sequence* sequence);
  // The next step, empty where nothing waits or runs. Takes pages for it; the caller then runs it.
  Batch schedule();
  // The step was run, and took this long (0: not known): what it computed may be shared from now
  // on.
  void computed(const Batch& batch, int64_t time_ns);

  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()) + followers_count_; }
  const KvPages& pages() const { return pages_; }
  int64_t preemptions() const { return preemptions_; }

 private:
  struct Older {
    bool operator()(const Sequence* a, const Sequence* b) const {
      return a->number() < b->number();
    }
  };

  // What a step has left for prompts.
  struct Room {
    int64_t rows = 0;
    int64_t given = 0;     // Of prompts, until now.
    bool limited = false;  // By the budget of time.
    StepWork work = {};    // Of the step, until now.
  };
  // Rows of a prompt from `position` on, at most `wanted`, that there is room for.
  int64_t give(int64_t position, int64_t wanted, Room* room) const;
  // Rows that each running sequence may compute, by its index; what they leave for others.
  std::vector<int64_t> share_rows(Room* room) const;
  // Pages for `rows` more rows of running_[index], from younger ones where need be; how many rows
  // there is room for.
  int64_t reserve(size_t index, int64_t rows);
  void preempt_youngest();
  // Starts waiting sequences, oldest first, while rows and pages for all their tokens are left.
  void admit(Room* room, Batch* batch);
  // The choices that waited for this first one wait for nothing else now.
  void release_followers(const Sequence* first);

  SchedulerLimits limits_;
  KvPages pages_;
  StepCost cost_;
  std::vector<int32_t> free_slots_;  // The last is given out first.
  std::vector<Sequence*> running_;   // Oldest first.
  std::set<Sequence*, Older> waiting_;
  // By a request's first choice: the others, which wait for it.
  std::unordered_map<const Sequence*, std::vector<Sequence*>> followers_;
  int64_t followers_count_ = 0;
  uint64_t added_ = 0;
  int64_t preemptions_ = 0;
};

}  // namespace lockstep
