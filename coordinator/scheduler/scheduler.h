// SPDX-License-Identifier: Apache-2.0
// Continuous batching with chunked prefill (Orca, Yu et al., 2022; Sarathi, Agrawal et al., 2023)
// over paged KV (vLLM, Kwon et al., 2023): decides which rows of which sequences are computed next.
//
// A step is planned in three parts:
//   1. Every running sequence whose prompt is done computes one row (or waits: full_draws.h).
//   2. Prompts get the step's other rows. While sequences decode or several clients have prompts,
//      prompts get only as many rows as the step's time allows (step_cost.h). Clients alternate
//      (fair_queue.h), both for running prompts and for waiting sequences. Among waiting sequences,
//      those of requests that have begun are first. A waiting sequence starts if there are a slot
//      and pages for all its tokens, in addition to the pages that running prompts still need. If
//      not, it may preempt running sequences of a worse priority. It may also preempt sequences
//      of clients that run more than their own share (kClientShares) and at least two sequences
//      more than the waiting sequence's client. If that is not enough, only clients that run
//      fewer sequences than this client may start any in this step: so no sequence waits forever.
//   3. Pages are taken in order (by priority, then by age), including pages that only the prefix
//      tree holds (kv_pages.h). If no page is left, a later sequence of the worst priority is
//      preempted: the youngest of the client that runs most, if that client runs more than its
//      own share; else the youngest of all.
// A preempted sequence keeps its place in the queue.
//
// A request that has begun comes to its end, however many clients wait: while one of its sequences
// waits for room, no other request of its priority begins, unless the waiting sequence's client
// runs more than its own share. So wasted and repeated work does not grow with the queue.
//
// A prompt's prefix, whose rows see one another, is computed in one step, regardless of quantum and
// chunk: it fits next to one row of every other running sequence.
//
// A sequence that outgrows its rotary frequencies releases its pages before the step is planned; it
// keeps its slot and is computed again as a prompt.
//
// There is no deadlock. The first running sequence in order computes a row in every step (part 2
// always gives it one row), so it ends. Only a sequence before it in order can preempt it, and is
// then the first itself. There are always pages for the first one: its tokens fit into all pages
// together, and it can take all pages of the tree that it does not use. Sequences do not preempt
// each other in circles, either. A waiting sequence takes nothing from its own client or from a
// client that runs as few sequences, so each preemption makes the clients' shares more equal; and
// priorities are strict.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coordinator/scheduler/batch.h"
#include "coordinator/scheduler/fair_queue.h"
#include "coordinator/scheduler/full_draws.h"
#include "coordinator/scheduler/pages/kv_pages.h"
#include "coordinator/scheduler/scheduler_limits.h"
#include "coordinator/scheduler/sequences/sequence.h"

namespace lockstep {

// A client's own share, which other clients cannot take: 1/kClientShares of all running sequences,
// and at least one. So kClientShares clients can run at once, whatever other clients run. More
// clients wait until requests end.
inline constexpr int64_t kClientShares = 16;

// Owns the pages, not the sequences: remove a sequence before deleting it. Used by the engine's
// thread alone. All pages together must have room for a sequence's tokens, else it would never run.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  // Queues a request's choices, new or withdrawn. If they can share pages or the prompt is scored,
  // all but the first wait until the first has computed the prompt, and then share what they can.
  void add(std::span<Sequence* const> choices);
  // The sequence finished or was cancelled: its pages are available at once. When choices are
  // removed together, the first one must be removed first.
  void remove(Sequence* sequence);
  // Like remove(), but the sequence may be added again later, also to another scheduler.
  void withdraw(Sequence* sequence);
  // The next step, empty if nothing waits or runs. Takes pages for it; the caller then runs it.
  Batch schedule();
  // The step was run and took `time_ns` (0: unknown): its computed pages may be shared from now on.
  void computed(const Batch& batch, int64_t time_ns);

  FullDraws& full_draws() { return full_draws_; }
  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting() const { return queue_.size() + followers_count_; }
  const KvPages& pages() const { return pages_; }
  int64_t preemptions() const { return preemptions_; }

 private:
  // The part of a step that is left for prompts.
  struct Room {
    int64_t rows = 0;
    int64_t given = 0;      // Rows given to prompts so far.
    int64_t budget_ns = 0;  // For the whole step; 0: none.
    StepWork work = {};     // The step's work so far.
  };

  void compute_again_if_outgrown(Sequence& sequence);
  // Parts 1 and 2: sets the planned rows of each running sequence.
  void plan();
  int64_t budget_ns(bool decodes) const;  // For a step; 0: none.
  // The step's outputs that no planned row needs.
  int64_t outputs_left() const;
  // Leaves at least one output for a sequence that starts.
  void keep_output();
  // The rows of the sequence's prefix that are not planned yet. They can only be computed together.
  static int64_t prefix_left(const Sequence& sequence);
  // Gives the next prompt as many rows as there is room for, at most `max` unless its prefix has
  // more. Returns the number of rows.
  int64_t give(Sequence& sequence, int64_t max, Room* room) const;
  // Starts the queue's next sequence, if there is room or room can be made.
  bool start(Sequence* next);
  bool fits(const Sequence& sequence) const;
  void make_room(const Sequence& sequence);
  // The pages that the sequence still needs for all its tokens.
  int64_t missing(const Sequence& sequence) const;
  // Part 3: takes pages for `rows` more rows of running_[index], preempting later sequences if
  // needed. Returns for how many rows there is room.
  int64_t reserve(size_t index, int64_t rows);
  size_t victim_behind(size_t index) const;
  void preempt(size_t index);
  // How many running sequences have the client and the priority of `sequence`.
  int64_t running_of_client(const Sequence& sequence) const;
  void count_running(const Sequence& sequence, int64_t change);
  int64_t own_share() const;
  // Whether this step had no room for `blocked_`, and `sequence` must not start before it.
  bool must_wait(const Sequence& sequence) const;
  // The sequences that may pass blocked_, which must be set.
  FairQueue::Starters starters() const;
  void leave(Sequence* sequence);
  // Queues the choices that waited only for this first one.
  void release_followers(const Sequence* first);

  SchedulerLimits limits_;
  KvPages pages_;
  StepCost cost_;
  std::vector<int32_t> free_slots_;  // The last one is used first.
  std::vector<Sequence*> running_;   // In order.
  FairQueue queue_;
  FullDraws full_draws_;
  std::map<std::pair<int32_t, std::string>, int64_t> running_by_client_;  // By priority and client.
  int64_t reserved_pages_ = 0;         // Available pages that running sequences still need.
  const Sequence* blocked_ = nullptr;  // No room for it in this step; its client runs fewest.
  // By a request's first choice: the other choices, which wait for it.
  std::unordered_map<const Sequence*, std::vector<Sequence*>> followers_;
  int64_t followers_count_ = 0;
  uint64_t added_ = 0;
  int64_t preemptions_ = 0;
};

}  // namespace lockstep
