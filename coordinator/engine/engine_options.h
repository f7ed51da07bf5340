// SPDX-License-Identifier: Apache-2.0
// How an engine is set up, what may wait in its queue, and what it reports of itself.
#pragma once

#include <cstdint>
#include <string>

#include "base/numbers/numeric_class.h"
#include "coordinator/cluster/group.h"
#include "coordinator/engine/engine_observer.h"
#include "coordinator/scheduler/prefix_options.h"
#include "coordinator/streams/stream.h"

namespace lockstep {

// Requests that were taken and have not run yet.
struct QueueLoad {
  int64_t requests = 0;
  int64_t choices = 0;
  int64_t prompt_tokens = 0;
  int64_t bytes = 0;  // That the requests hold in memory.

  QueueLoad& operator+=(const QueueLoad& other) {
    requests += other.requests;
    choices += other.choices;
    prompt_tokens += other.prompt_tokens;
    bytes += other.bytes;
    return *this;
  }
  QueueLoad& operator-=(const QueueLoad& other) {
    requests -= other.requests;
    choices -= other.choices;
    prompt_tokens -= other.prompt_tokens;
    bytes -= other.bytes;
    return *this;
  }
};

inline constexpr int64_t kNoBound = int64_t{1} << 62;

struct EngineOptions {
  int64_t prefill_chunk = 512;  // Prompt tokens of all sequences in one step, at most.
  int64_t max_running = 256;    // Sequences that hold pages at once.
  // What a step in which sequences decode is to take, so that a prompt does not hold up others for
  // longer. 0: as long as it takes; below: 60 on processors, 50 on GPUs.
  int64_t step_budget_ms = -1;
  int64_t step_budget_of(const std::string& numeric_class) const {
    if (step_budget_ms >= 0) return step_budget_ms;
    return is_cuda_class(numeric_class) ? 50 : 60;
  }
  PrefixOptions prefix;  // What happens to pages of tokens that may come again.
  // What may wait; more is refused with kResourceExhausted. A request that is larger than a bound
  // on tokens, choices or bytes is taken while the queue is empty.
  QueueLoad max_waiting = {.requests = 4096,
                           .choices = 16'384,
                           .prompt_tokens = int64_t{4} << 20,
                           .bytes = int64_t{64} << 20};
  // A stream whose reader leaves more than this unread, in one choice, is closed.
  int64_t max_unread_bytes = kMaxUnreadBytes;
  // That all readers together may leave unread of log-probabilities of prompts.
  int64_t max_unread_scores_bytes = kMaxUnreadScoresBytes;
  // How long without work until an empty step shows that every rank still answers; 0: never.
  int64_t idle_step_ms = 1000;
  // How long requests without a deadline wait for workers to form a group again: then they end with
  // kUnavailable, and others are refused until there is one. 0: as long as it takes.
  int64_t max_outage_ms = 0;
  EngineObserver* observer = nullptr;  // Outlives the engine; null: nobody.
};

// A consistent picture of a moment, for GetModel, metrics and tests.
struct EngineStats {
  bool ready = false;        // A group is formed and healthy, and the engine is not draining.
  bool outage = false;       // There has been no group for longer than EngineOptions allows.
  GroupInfo group;           // The last group that was formed.
  int64_t pages_free = 0;    // That a new sequence can take.
  int64_t pages_cached = 0;  // Of these, with tokens of earlier sequences.
  int64_t running = 0;       // Choices of requests that hold pages, or are about to.
  int64_t waiting = 0;       // Choices that don't, preempted ones included.
  int64_t preemptions = 0;
  QueueLoad refused;  // By bound of the queue, the requests that were refused for it.
  int64_t groups_lost = 0;
  int64_t steps = 0;
  int64_t prompt_tokens = 0;  // Computed, recomputed ones included.
  PrefixCounts prefix;
  int64_t completion_tokens = 0;
  EngineTimes times_ns = {};  // Of the engine's thread.
};

}  // namespace lockstep
