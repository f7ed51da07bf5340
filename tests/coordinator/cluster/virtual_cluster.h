// SPDX-License-Identifier: Apache-2.0
// A ClusterCore on virtual time with workers that obey it, unless a test changes them. For one
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/cluster/cluster_core.h"

namespace lockstep::testing {

// The behaviour of one worker. A test may change it at any time.
struct VirtualWorker {
  LinkId link = 0;
  cluster::Hello hello;
  bool open = true;       // Its stream is open.
  bool loads = true;      // Answers an Assignment with Ready.
  bool steps = true;      // Answers steps and requests for logits.
  bool preloads = true;   // Answers a preload; otherwise ignores it.
  bool beats = true;      // Sends heartbeats.
  bool advances = false;  // Its heartbeats report progress.
  bool waits = false;     // Its heartbeats say that it waits for a peer.
  int64_t pages = 10;
  int64_t weight_bytes = 1'000;
  std::string contents = "checkpoint 1";
  std::string written_at = "noon";
  // The proven kernels of each linear. The worker uses the first one if none is assigned.
  std::vector<std::vector<std::string>> kernels = {};
  bool obeys = true;  // Uses assigned kernels.
  // If set, the answer to the next Assignment, preload or Step.
  std::optional<cluster::Failure> failure;

  uint64_t epoch = 0;  // The epoch of its last Assignment.
  uint64_t progress = 0;
  std::vector<cluster::CoordinatorMessage> received;

  const cluster::Assignment& assignment() const;
  // The rank of its last preload, or -1.
  int preload() const;
  // The reason if it was refused, or "".
  std::string refusal() const;
};

cluster::Failure failure_of(absl::StatusCode code);  // The message is "rank 1: it went wrong".

class VirtualCluster {
 public:
  explicit VirtualCluster(ClusterCoreOptions options);
  // Two workers, nothing launched, programs with a vocabulary of 128.
  static ClusterCoreOptions default_options();
  static cluster::Hello default_hello();

  ClusterCore& core() { return core_; }
  int64_t now() const { return now_; }
  VirtualWorker& worker(LinkId link) { return workers_.at(link); }

  // A worker opens a stream and sends Hello. Its pid is 100 + link unless the hello has one.
  LinkId join(cluster::Hello hello = default_hello(), VirtualWorker worker = {});
  // A worker opens a stream and sends nothing.
  LinkId open();
  // The worker sends this message; if the message's epoch is 0, it gets the worker's epoch.
  void say(LinkId link, cluster::WorkerMessage message);
  void hang_up(LinkId link);  // Its process died: the stream ends.

  void want_group(const GroupRequirements& requirements = {});
  // True if a GroupFormed arrived since want_group().
  bool formed() const { return formed_.has_value(); }
  const GroupInfo& info() const { return *formed_; }
  // The reason of the group's loss, or "".
  std::string lost() const { return lost_.has_value() ? std::string(lost_->message()) : ""; }
  absl::StatusCode lost_code() const { return lost_.value_or(absl::OkStatus()).code(); }
  std::string impossible() const { return impossible_ ? std::string(impossible_->message()) : ""; }
  // Sends an empty step, which is answered at once if all workers answer.
  void step(uint64_t number);
  bool replied() const { return replied_; }

  // Advances time in ticks of 50 ms, with heartbeats every 250 ms.
  void pass(int64_t ms);
  // Advances time without a tick: the machine was suspended.
  void suspend(int64_t ms) { now_ += ms; }
  // Carries out all actions, and lets workers answer, until none is left.
  void settle();

  std::vector<int> take_started();
  std::vector<int> take_killed();
  // A process was started, or has ended.
  void process_started(int index, int pid);
  void process_exited(int index, const ProcessEnd& end);
  // All log messages so far, one per line.
  const std::string& log() const { return log_; }

 private:
  void carry_out(ClusterAction action);
  void deliver(VirtualWorker& worker, const cluster::CoordinatorMessage& message);
  void answer(VirtualWorker& worker, const cluster::CoordinatorMessage& message);
  void beat();

  ClusterCore core_;
  int64_t now_ = 1'000'000;
  LinkId last_link_ = 0;
  std::map<LinkId, VirtualWorker> workers_;
  std::optional<GroupInfo> formed_;
  std::optional<absl::Status> lost_;
  std::optional<absl::Status> impossible_;
  bool replied_ = false;
  std::vector<int> started_;
  std::vector<int> killed_;
  std::string log_;
};

}  // namespace lockstep::testing
