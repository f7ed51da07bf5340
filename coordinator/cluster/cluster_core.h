// SPDX-License-Identifier: Apache-2.0
// The coordinator's view of its workers as a state machine: which have joined, which form the
// group, which are alive, which are restarted. Events go in, actions come out; the core has no
// thread, clock, lock or socket, so that tests run it on virtual time.
//
//   want_group, opened, Hello -> Send{Assignment}; Ready of all -> Send{Start}, Send{null step};
//   StepResult of all -> GroupFormed; exchange -> Send{Step}; StepResult of all -> RankReplies
//   a worker is lost -> Send{Abort} to the others, GroupLost, KillWorker, StartWorker
//   it does not come back -> a group of fewer ranks; it comes later -> GroupLost, a group of all
//   a spare is idle -> Send{preload}; Preloaded -> it is the first to take that rank's place
//   Goodbye -> that worker is lost, and its work is not the cause
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/log_limit.h"
#include "coordinator/cluster/cluster_actions.h"
#include "coordinator/cluster/cluster_options.h"
#include "coordinator/cluster/forming/epoch.h"
#include "coordinator/cluster/forming/regroup.h"
#include "coordinator/cluster/workers/local_workers.h"
#include "coordinator/cluster/workers/member.h"
#include "coordinator/cluster/workers/process_end.h"
#include "coordinator/cluster/workers/speeds.h"

namespace lockstep {

// One thread at a time. `now` is in milliseconds of a steady clock and never decreases. After each
// call take_actions() returns the actions, in order.
class ClusterCore {
 public:
  explicit ClusterCore(ClusterCoreOptions options);

  // ---- Workers' events ----
  // A worker that proved to know the token has opened a stream. Its first message is a Hello.
  void opened(int64_t now, LinkId link);
  void message(int64_t now, LinkId link, cluster::WorkerMessage message);
  void closed(int64_t now, LinkId link);

  // ---- Results of StartWorker ----
  void worker_started(int64_t now, int index, int pid);
  // Also called if the worker could not be started.
  void worker_exited(int64_t now, int index, const ProcessEnd& end);

  // ---- Requests of the group's owner ----
  // Forms a group as soon as there are enough workers: answered by GroupFormed or
  // FormingImpossible. Ends the owner's current group.
  void want_group(int64_t now, const GroupRequirements& requirements = {});
  // Reports the owner's demand. A group with fewer ranks than possible is formed again: soon if no
  // request runs, else after ClusterCoreOptions::regrow_ms.
  void note_demand(int64_t now, Demand demand);
  // Sends a Step or a LogitsRequest to every rank: answered by RankReplies or GroupLost. The owner
  // must wait for this answer before the next call. Has no effect after GroupLost.
  void exchange(int64_t now, cluster::CoordinatorMessage message);
  // The owner releases its group, or needs none any more. GroupLost does not follow.
  void end_epoch(int64_t now, const std::string& reason);
  // Forms no group and starts no worker afterwards.
  void shutdown(int64_t now);

  // Must be called at least every kTickMs. If a call is more than kLateTickMs late, workers'
  // silence counts from this call.
  void tick(int64_t now);

  // Whether a group is formed, every rank sent a message recently and, while ranks have work, one
  // of them makes progress.
  bool ready(int64_t now) const;
  // The number of workers that sent Hello and were not lost.
  int joined() const;
  // The same workers. First come, in rank order, those of the group or of the one being formed.
  std::vector<WorkerState> workers(int64_t now) const;

  std::vector<ClusterAction> take_actions();

 private:
  enum class LossKind {
    kClosed,   // The worker's stream is closed already.
    kCut,      // The stream is cancelled, and the process killed if this coordinator started it.
    kSilent,   // Like kCut, for silence. No step is the cause: steps do not delay heartbeats.
    kLeft,     // The worker sent Goodbye.
    kRefused,  // The reason is sent to the worker before the stream ends.
  };

  // Events, in cluster_core.cc.
  void on_hello(int64_t now, Member& member, const cluster::Hello& hello);
  void on_heartbeat(int64_t now, Member& member, const cluster::Heartbeat& heartbeat);
  void on_failure(int64_t now, int rank, const cluster::Failure& failure);
  void on_progress(int64_t now, int rank, const cluster::LoadProgress& progress);
  void on_answer(int64_t now, int rank, cluster::WorkerMessage message);
  void on_preloaded(int64_t now, Member& member, const cluster::WorkerMessage& message);
  void on_goodbye(int64_t now, const Member& member);
  void look_for_silence(int64_t now);
  void look_for_stuck(int64_t now);
  void run_local_workers(int64_t now);

  // How a group forms and ends, in forming.cc.
  void try_form(int64_t now);
  void refuse_incompatible(int64_t now);
  void try_grow(int64_t now);
  void open_epoch(int64_t now, Roster roster, bool reload);
  Speeds::Chosen speeds_of(const std::vector<LinkId>& links) const;
  std::vector<WorkerFacts> facts_of(const std::vector<LinkId>& links) const;
  cluster::Assignment assignment_of(const std::vector<LinkId>& links) const;
  void assign();
  bool agree(int64_t now, const std::vector<cluster::WorkerMessage>& readies);
  void prove(int64_t now);
  void enter(int64_t now);
  void ask(int64_t now, cluster::CoordinatorMessage message);
  // Ends the epoch. `permanent`: a retry would fail the same way.
  void fail_epoch(int64_t now, const absl::Status& why, bool permanent = false);
  void abort_members(const std::string& reason);
  void lose(int64_t now, LinkId link, LossKind how, const std::string& why);
  void give_up(absl::Status why);

  // Spares that hold the weights of ranks.
  void cover_ranks();
  void preload(Member& spare, int rank);

  Member& member_of(int rank) { return members_.at(epoch_.links[rank]); }
  void send(std::vector<LinkId> links, cluster::CoordinatorMessage message);
  void log(cluster_action::LogLevel level, std::string line);

  const ClusterCoreOptions options_;
  LocalWorkers local_;
  Members members_;
  // The Hello of the local worker that joined last. Workers from elsewhere must be compatible with
  // it even while all local workers are dead, because dead local workers are restarted.
  std::optional<cluster::Hello> own_;
  Epoch epoch_;
  Regroup regroup_{&options_};
  Speeds speeds_{options_.speeds, options_.measured_speeds};
  uint64_t epochs_ = 0;
  bool wanted_ = false;
  uint64_t last_formed_ = 0;  // The epoch of the last formed group; 0: none.
  bool was_killed_ = false;   // A worker of that group was ended from outside, or sent Goodbye.
  bool over_ = false;
  int64_t form_at_ = INT64_MIN;  // No attempt to form a group before this time.
  int failed_tries_ = 0;         // Failed attempts in a row.
  int64_t last_tick_ = -1;
  LogLimit refusals_{std::chrono::seconds(1)};
  std::vector<ClusterAction> actions_;
};

}  // namespace lockstep
