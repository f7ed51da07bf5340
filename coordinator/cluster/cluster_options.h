// SPDX-License-Identifier: Apache-2.0
// ClusterCore's options and time limits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/flag.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "sharding/worker_facts.h"

namespace lockstep {

inline constexpr int64_t kTickMs = 50;            // tick() is called at least this often.
inline constexpr int64_t kLateTickMs = 500;       // If a tick is later, silence counts from it.
inline constexpr int64_t kHelloMs = 5'000;        // The max time from opened() to Hello.
inline constexpr int64_t kReadySilentMs = 1'000;  // ready(): max age of each rank's last message.
// ready(): max time since a heartbeat last reported progress. Heartbeats are 250 ms apart, so the
// progress itself is less than two seconds old.
inline constexpr int64_t kReadyProgressMs = 1'500;
inline constexpr int64_t kFirstPauseMs = 100;  // After the first failed attempt; then it doubles.
inline constexpr int64_t kMaxPauseMs = 3'000;  // The longest pause after a failed attempt.

struct ClusterCoreOptions {
  int workers = 1;      // The ranks of a full group.
  int min_workers = 1;  // The min ranks of a group after the first one.
  bool launch = false;  // Workers are started here: StartWorker for 0 .. workers - 1.
  // A worker that was silent for this long is lost.
  int64_t silent_ms = 1'000;
  // While ranks have work, a rank that blocks the others and makes no progress for this long is
  // lost. A worker that was started here has the same time to join.
  int64_t stuck_ms = 10'000;
  // A lost worker has this long to come back, before a group of fewer ranks forms.
  int64_t grace_ms = 1'500;
  // A worker that could make the group larger waits this long while requests run.
  int64_t regrow_ms = 60'000;
  // A worker's memory for KV pages and state blocks; 0: a fraction of the remaining memory.
  int64_t kv_memory_bytes = 0;
  std::vector<double> speeds = {};  // See Speeds: by rank, for a group of `workers`.
  // Whether shard sizes may depend on workers' measurements; false if bits depend on shard sizes.
  bool measured_speeds = false;
  // The fields that are equal for all groups and ranks, for instance the checkpoint and memory
  // limits. The core adds the others.
  cluster::Assignment assignment;
  // One program per rank. A pure function.
  std::function<absl::StatusOr<std::vector<program::Program>>(std::vector<WorkerFacts>)> compile;
  // Returns a new, unpredictable name, by which the ranks of one host find each other.
  std::function<std::string()> draw_group_name;
  // Returns a new key, for an epoch that spans hosts.
  std::function<std::string()> draw_data_key;

  std::vector<Flag> flags();
};

inline std::vector<Flag> ClusterCoreOptions::flags() {
  return {
      {"--workers", &workers, "Worker processes that share the model", FlagValues{.min = 1}},
      {"--kv-memory", &kv_memory_bytes,
       "Each worker's memory for the state of sequences (keys and values, recurrent state), e.g. "
       "2GiB (default: the share --memory-fraction of the memory that is left after loading the "
       "weights)",
       FlagValues{.is_size = true}},
      {"--silent-ms", &silent_ms,
       "A worker that sends nothing for this time in ms counts as lost; a worker that this command "
       "started is started again",
       FlagValues{.min = 500}},
      {"--stuck-ms", &stuck_ms,
       "A worker that blocks the others and makes no progress for this time in ms counts as lost"},
      {"--grace-ms", &grace_ms,
       "A lost worker has this time in ms to return; after that the others continue without it",
       FlagValues{.min = 0, .max = 1e9}},
      {"--min-workers", &min_workers,
       "After a loss, a group continues with this number of workers or more; if fewer are left, "
       "requests wait",
       FlagValues{.min = 1}},
      {"--regrow-seconds", &regrow_ms,
       "A new worker replaces a lost rank as soon as no request runs; while requests run, this "
       "many seconds after it joined",
       FlagValues{.min = 0, .max = 1e6, .unit = 1'000}},
      {"--speeds", &speeds,
       "Relative speeds of the workers, by rank, e.g. 8,8,4: speed 8 gets twice the part of speed "
       "4 (default: workers that are started by hand measure "
       "their speeds; otherwise all speeds are equal)",
       FlagValues{.min = 1e-6, .max = 1e15, .has_commas = true}},
  };
}

}  // namespace lockstep
