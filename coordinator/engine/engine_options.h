// SPDX-License-Identifier: Apache-2.0
// An engine's options, the bounds of its queue, and its statistics.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/flag.h"
#include "base/numbers/numeric_class.h"
#include "coordinator/cluster/group.h"
#include "coordinator/engine/engine_observer.h"
#include "coordinator/scheduler/pages/prefix_options.h"
#include "coordinator/streams/stream.h"

namespace lockstep {

// Requests that were accepted and have not run yet.
struct QueueLoad {
  int64_t requests = 0;
  int64_t choices = 0;
  int64_t prompt_tokens = 0;
  int64_t bytes = 0;  // Memory that the requests hold.

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

// Prompt tokens per step if --prefill-chunk is auto. More rows keep a GPU's tensor cores busy.
inline constexpr int64_t kChunk = 512;
inline constexpr int64_t kGpuChunk = 4096;

struct EngineOptions {
  int64_t prefill_chunk = kChunk;  // Max prompt tokens of all sequences in one step.
  int64_t max_running = 64;        // Max sequences that hold pages at once.
  // The target duration of a step in which sequences decode, so that a long prompt delays their
  // tokens only a little. 0: no target; negative: 60 on CPUs, 50 on GPUs.
  int64_t step_budget_ms = -1;
  int64_t step_budget_of(const std::string& numeric_class) const {
    if (step_budget_ms >= 0) return step_budget_ms;
    return is_cuda_class(numeric_class) ? 50 : 60;
  }
  PrefixOptions prefix;  // How pages of earlier tokens are reused.
  // Bounds of the queue; further requests are refused with kResourceExhausted. While the queue is
  // empty, a request is accepted even if it alone exceeds the bound on tokens, choices or bytes.
  QueueLoad max_waiting = {.requests = 4096,
                           .choices = 16'384,
                           .prompt_tokens = int64_t{4} << 20,
                           .bytes = int64_t{64} << 20};
  // A stream is closed if its reader leaves more than this many bytes of one choice unread.
  int64_t max_unread_bytes = kMaxUnreadBytes;
  // Idle time after which a null step checks that every rank still answers; 0: never.
  int64_t idle_step_ms = 1000;
  // How long requests without a deadline wait for the next group. After that they end with
  // kUnavailable, and new ones are refused until there is a group. 0: no limit.
  int64_t max_outage_ms = 0;
  EngineObserver* observer = nullptr;  // Outlives the engine; null: none.

  // The flags of every command that opens a model. `--prefill-chunk auto` sets prefill_chunk to 0.
  std::vector<Flag> flags();
  std::vector<Flag> serve_flags();
};

inline std::vector<Flag> EngineOptions::flags() {
  return {
      {"--prefill-chunk", &prefill_chunk,
       fmt::format("Prompt tokens per step: a number, or auto ({} if this host's workers have "
                   "GPUs, else {})",
                   kGpuChunk, kChunk),
       FlagValues{.min = 1, .max = 65'536, .words = {"auto"}}},
      {"--max-running", &max_running, "Max number of sequences that run at once",
       FlagValues{.min = 1, .max = 4096}},
  };
}

inline std::vector<Flag> EngineOptions::serve_flags() {
  return {
      {"--step-budget-ms", &step_budget_ms,
       "Target time in ms of a step in which sequences decode: prompts get the time that decoding "
       "leaves; 0: no limit (default: 60, on GPUs 50)",
       FlagValues{.min = 0, .max = 600'000}},
      {"--queue-seconds", &max_outage_ms,
       "A request that would wait longer, by an estimate, is refused. If no group of workers can "
       "be formed for this time, requests that have no deadline fail. 0: no limit",
       FlagValues{.min = 0, .max = 86'400, .unit = 1'000}},
  };
}

// A consistent snapshot, for GetModel, metrics and tests.
struct EngineStats {
  bool ready = false;        // A group is formed and healthy, and the engine is not draining.
  bool outage = false;       // There has been no group for longer than max_outage_ms.
  GroupInfo group;           // The last group that was formed.
  int64_t pages_free = 0;    // Available to a new sequence.
  int64_t pages_cached = 0;  // The part of pages_free that has tokens of earlier sequences.
  int64_t running = 0;       // Choices that hold pages, or are about to.
  int64_t waiting = 0;       // All other choices, preempted ones included.
  int64_t preemptions = 0;
  QueueLoad refused;  // Numbers of requests refused or displaced, by the bound that was the cause.
  int64_t groups_lost = 0;
  int64_t steps = 0;
  int64_t prompt_tokens = 0;  // Computed by prefill, tokens that are computed again included.
  PrefixCounts prefix;
  int64_t completion_tokens = 0;
  EngineTimes times_ns = {};  // Times of the engine's thread.
};

}  // namespace lockstep
