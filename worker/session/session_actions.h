// SPDX-License-Identifier: Apache-2.0
// SessionCore's requests, as data, and their results. The owner of the core takes the actions after
// each event and carries them out in order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// Describes the weights in memory, which outlive epochs and connections. Empty: there are none.
struct WeightsInMemory {
  std::string program;  // Serialized.
  std::string source;   // The checkpoint's folder, or the seed of random weights.
  std::string stamp;    // The source's stamp, see source_stamp().
};

// One long action. At most one is running; each is answered by exactly one work_done().
struct Work {
  enum Kind {
    kCheck,    // Check the assignment; WorkResult::stamp is its weights' stamp now.
    kLoad,     // Meet the other ranks, then load the weights, see `keep`. Reply: Ready.
    kStart,    // Allocate KV pages. No reply.
    kStep,     // Reply: StepResult.
    kLogits,   // Reply: LogitsReply.
    kPreload,  // Like kLoad, without a meeting and at low priority. Reply: Preloaded.
  };
  Kind kind = kCheck;
  uint64_t epoch = 0;
  std::shared_ptr<const cluster::Assignment> assignment;  // The epoch's.
  // kLoad, kPreload: the weights in memory are exactly those that the assignment needs.
  bool keep = false;
  bool reuse = false;                   // Some of the weights in memory can be reused.
  cluster::CoordinatorMessage message;  // kStart, kStep, kLogits.
};

struct WorkResult {
  absl::Status status = {};
  cluster::WorkerMessage reply = {};  // The core adds the epoch.
  std::string stamp = {};             // kCheck: the source's; loads: that of the weights in memory.
  int64_t bytes_loaded = 0;           // kLoad: for the last LoadProgress; 0: none.
  absl::Status device = {};           // Not OK: the device failed for good.
};

// The contents of heartbeats, read from counters that the working threads write.
struct HeartbeatStats {
  uint64_t load_progress = 0;  // Bytes read, packed and written for this epoch.
  uint64_t instructions = 0;   // Instructions since the epoch's Start.
  bool waiting = false;        // In a collective or in the meeting.
  int64_t bytes_loaded = 0;    // For LoadProgress.
  int64_t bytes_to_load = 0;
};

namespace session_action {

struct Send {
  cluster::WorkerMessage message;
};
// Begin this work.
struct Run {
  Work work;
};
// Make the running work end soon. work_done() still answers it.
struct AbortRunning {};
// Send nothing more; earlier messages are still sent. Reading continues.
struct FinishSending {};
// The last action, sent once, when the connection is over and no work is running. OK: the
// coordinator went away, or stop(). kPermissionDenied: it refused this worker. kInternal: the
// device failed.
struct End {
  absl::Status status;
};

}  // namespace session_action

using SessionAction =
    std::variant<session_action::Send, session_action::Run, session_action::AbortRunning,
                 session_action::FinishSending, session_action::End>;

}  // namespace lockstep
