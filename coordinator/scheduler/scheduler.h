// SPDX-License-Identifier: Apache-2.0
// Continuous batching with chunked prefill (Orca, Yu et al., 2022; Sarathi, Agrawal et al., 2023)
// over paged KV (vLLM, Kwon et al., 2023): which sequences compute which rows next.
//
// A step is planned in three parts:
//   1. Every running sequence whose prompt is done computes one row (or waits: full_draws.h).
//   2. What is left of the step's rows, and of its time while others decode or other clients have
//      prompts (step_cost.h), is prompt. Clients take turns for it (fair_queue.h), with prompts
//      that run and with sequences that wait, of which those of requests that have begun come
//      first. One that waits is started if there is a slot and pages for all its tokens, beside
//      those that running prompts have yet to take. If there is not, it may preempt running ones of
//      a worse priority, and of clients that run more than their own share (a part of all that
//      run), at least two more than its own. If that does not help either, only clients that run
//      fewer than its own may start any in this step: so nobody is passed for ever.
//   3. Pages are taken, in order (by priority, then by age), those that only the prefix tree has
//      included (kv_pages.h). Where there is none, one that is later in order gives up its own: of
//      the worst priority, of the client that runs most and more than its own share, the youngest;
//      where none does, the youngest.
// Who is preempted waits at its old place.
//
// However many clients wait, requests that have begun end: nobody begins in the room that one of
// these waits for, unless its client runs more than its own share. So the work that is computed in
// vain, or has to be computed again, does not grow with the queue.
//
// A prompt's prefix, whose rows see one another, is computed in one step, whatever its turn and the
// chunk are: it fits beside a row of every other sequence that runs.
//
// A sequence that outgrows its rotary frequencies gives up its pages before the step is planned and
// is computed again, in its slot, as a prompt.
//
// There is no deadlock: the first in order of those that run is never preempted, but for one that
// is before it in order and thus runs instead. It computes a row in every step (in part 2 it gets
// one whoever has the turn), and so it ends. Alone it has room: its tokens fit into all pages
// together, and pages of the tree that it does not use are available to it. Nor do sequences
// preempt each other in circles: one that waits takes nothing from its own client or from one that
// runs as few, so that each time the clients' shares become more equal; and priorities are strict.
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

// A client's own share, which others do not take from it, is this part of all that run, and one at
// least. So that many clients get room at once, whatever others run; more wait until requests end.
inline constexpr int64_t kClientShares = 16;

// Owns the pages, not the sequences: a sequence is removed before it goes away. Used by the
// engine's thread alone. A sequence's tokens fit into all pages together: else it would never run.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  // Puts the choices of one request into the queue, new ones or withdrawn ones. Where they can
  // share pages, all but the first one wait until it has computed the prompt, and then compute only
  // what is not shared.
  void add(std::span<Sequence* const> choices);
  // It is finished, or cancelled: its pages are available at once. Of choices that are removed
  // together, the first one comes first.
  void remove(Sequence* sequence);
  // The same, but it may be added again later, here or to another scheduler.
  void withdraw(Sequence* sequence);
  // The next step, empty where nothing waits or runs. Takes pages for it; the caller then runs it.
  Batch schedule();
  // The step was run, and took this long (0: not known): what it computed may be shared from now
  // on.
  void computed(const Batch& batch, int64_t time_ns);

  FullDraws& full_draws() { return full_draws_; }
  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t waiting() const { return queue_.size() + followers_count_; }
  const KvPages& pages() const { return pages_; }
  int64_t preemptions() const { return preemptions_; }

 private:
  // What a step has left for prompts.
  struct Room {
    int64_t rows = 0;
    int64_t given = 0;      // Of prompts, until now.
    int64_t budget_ns = 0;  // Of the step; 0: none.
    StepWork work = {};     // Of the step, until now.
  };

  void compute_again_if_outgrown(Sequence& sequence);
  // Parts 1 and 2: says in each running sequence how many rows it is to compute.
  void plan();
  int64_t budget_ns(bool decodes) const;  // Of a step; 0: none.
  // Of the step's outputs, those that nothing planned needs.
  int64_t outputs_left() const;
  // One starts: at least one output is left for it.
  void keep_output();
  // Rows that it can only get at once.
  static int64_t prefix_left(const Sequence& sequence);
  // Rows of a prompt that is next, at most `most` unless its prefix has more, that there is room
  // for.
  int64_t give(Sequence& sequence, int64_t most, Room* room) const;
  // Starts the one that is next in the queue, if there is room for it, or is made.
  bool start(Sequence* next);
  bool fits(const Sequence& sequence) const;
  void make_room(const Sequence& sequence);
  // Pages that it has yet to take for all its tokens.
  int64_t missing(const Sequence& sequence) const;
  // Part 3: pages for `rows` more rows of running_[index], from later ones where need be; how many
  // rows there is room for.
  int64_t reserve(size_t index, int64_t rows);
  size_t victim_behind(size_t index) const;
  void preempt(size_t index);
  // How many of its client and priority run.
  int64_t alike_running(const Sequence& sequence) const;
  void count_running(const Sequence& sequence, int64_t change);
  int64_t own_share() const;
  // Somebody had no room in this step, and this one may not pass it.
  bool must_wait(const Sequence& sequence) const;
  // Who may pass it at all: it is there.
  FairQueue::Starters starters() const;
  void leave(Sequence* sequence);
  // The choices that waited for this first one wait for nothing else now.
  void release_followers(const Sequence* first);

  SchedulerLimits limits_;
  KvPages pages_;
  StepCost cost_;
  std::vector<int32_t> free_slots_;  // The last is given out first.
  std::vector<Sequence*> running_;   // In order.
  FairQueue queue_;
  FullDraws full_draws_;
  std::map<std::pair<int32_t, std::string>, int64_t> running_by_client_;  // By priority, too.
  int64_t promised_ = 0;               // Available pages that running sequences have yet to take.
  const Sequence* blocked_ = nullptr;  // Had no room in this step; the one whose client runs least.
  // By a request's first choice: the others, which wait for it.
  std::unordered_map<const Sequence*, std::vector<Sequence*>> followers_;
  int64_t followers_count_ = 0;
  uint64_t added_ = 0;
  int64_t preemptions_ = 0;
};

}  // namespace lockstep
