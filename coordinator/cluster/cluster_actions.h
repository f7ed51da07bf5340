// SPDX-License-Identifier: Apache-2.0
// What ClusterCore wants done, as data: whoever owns the core takes the actions after each event
// and carries them out in order.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cluster/group.h"
#include "proto/cluster.pb.h"

namespace lockstep {

// One stream of one worker. Numbers grow in the order in which streams were opened, and none is
// used twice.
using LinkId = uint64_t;

namespace cluster_action {

struct Send {
  std::vector<LinkId> links;  // The same message to each.
  cluster::CoordinatorMessage message;
};

// closed() need not be called for this link any more; it is ignored.
struct Close {
  LinkId link = 0;
  bool after_sending = false;  // What was sent goes out first; else the stream is cancelled.
};

// Answered by worker_started(), later by worker_exited().
struct StartWorker {
  int index = 0;
};

// SIGKILL, which ends a stopped process as well. Answered by worker_exited().
struct KillWorker {
  int index = 0;
};

struct GroupFormed {
  GroupInfo info;
};

// Once for each GroupFormed, unless the owner ended that epoch. kUnavailable names the rank;
// kDeadlineExceeded: the same, and nothing was heard of the rank, so that what it computed is not
// to blame; kAborted: nothing is wrong, and the next one will be larger; kCancelled: the cluster
// was shut down. The next group is formed when want_group() is called.
struct GroupLost {
  absl::Status why;
};

// To exchange(), by rank. Checked: steps, outputs and sizes are those that were asked for.
struct Replies {
  std::vector<cluster::WorkerMessage> messages;
};

// No group can ever be formed: another try would only repeat this. Only before the first group;
// nothing follows it.
struct Hopeless {
  absl::Status why;
};

enum class LogLevel { kInfo, kWarning };
struct Log {
  LogLevel level = LogLevel::kInfo;
  std::string line;
};

// Bytes of weights that all ranks together have loaded.
struct Loaded {
  int64_t bytes_done = 0;
  int64_t bytes_total = 0;
};

}  // namespace cluster_action

using ClusterAction =
    std::variant<cluster_action::Send, cluster_action::Close, cluster_action::StartWorker,
                 cluster_action::KillWorker, cluster_action::GroupFormed, cluster_action::GroupLost,
                 cluster_action::Replies, cluster_action::Hopeless, cluster_action::Log,
                 cluster_action::Loaded>;

}  // namespace lockstep
