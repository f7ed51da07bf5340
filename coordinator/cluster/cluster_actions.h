// SPDX-License-Identifier: Apache-2.0
// ClusterCore's actions, as data. The core's owner takes them after each event and carries them out
// in order.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cluster/group.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// The number of one stream of one worker. Numbers grow in the order in which streams are opened,
// and are never reused.
using LinkId = uint64_t;

namespace cluster_action {

struct Send {
  std::vector<LinkId> links;  // Each gets the same message.
  cluster::CoordinatorMessage message;
};

// Ends a stream. The core has forgotten the link and ignores a later closed().
struct Close {
  LinkId link = 0;
  bool after_sending = false;  // Pending messages are sent first; else the stream is cancelled.
};

// Answered by worker_started(), later by worker_exited().
struct StartWorker {
  int index = 0;
};

// Sends SIGKILL, which also ends a stopped process. Answered by worker_exited().
struct KillWorker {
  int index = 0;
};

struct GroupFormed {
  GroupInfo info;
};

// Follows each GroupFormed, unless the owner ended that epoch. kUnavailable: a rank was lost, and
// the message names it; or a rank reported a failure, and the message describes it.
// kDeadlineExceeded: a rank became silent; no work is the cause, because heartbeats do not wait for
// work. kAborted: nothing is wrong, and the next group will be larger. kCancelled: the cluster was
// shut down. The next group is formed after want_group() is called.
struct GroupLost {
  absl::Status why;
};

// The answers to exchange(), by rank. The core has checked that steps, outputs and sizes match the
// question.
struct RankReplies {
  std::vector<cluster::WorkerMessage> messages;
};

// No group can ever be formed: a retry would fail the same way. This happens only before the first
// group, and is the last action.
struct FormingImpossible {
  absl::Status why;
};

enum class LogLevel { kInfo, kWarning };
struct Log {
  LogLevel level = LogLevel::kInfo;
  std::string line;
};

// Bytes of weights over all ranks: loaded so far, and in total.
struct Loaded {
  int64_t bytes_done = 0;
  int64_t bytes_total = 0;
};

}  // namespace cluster_action

using ClusterAction =
    std::variant<cluster_action::Send, cluster_action::Close, cluster_action::StartWorker,
                 cluster_action::KillWorker, cluster_action::GroupFormed, cluster_action::GroupLost,
                 cluster_action::RankReplies, cluster_action::FormingImpossible,
                 cluster_action::Log, cluster_action::Loaded>;

}  // namespace lockstep
