// SPDX-License-Identifier: Apache-2.0
// The coordinator's view of its workers as a state machine: who has joined, which of them form the
// group, who is alive, what is started again. Events go in, actions come out; there is no thread,
// clock, lock or socket in it, so that tests run it on virtual time.
//
//   want_group, opened, Hello -> Send{Assignment}; Ready of all -> Send{Start}, Send{null step};
//   StepResult of all -> GroupFormed; exchange -> Send{Step}; StepResult of all -> Replies
//   a worker is lost -> Send{Abort} to the others, GroupLost, KillWorker, StartWorker
//   it does not come back -> a group of fewer ranks; it does later -> GroupLost, a group of all
//   a spare is idle -> Send{preload}; Preloaded -> it takes that rank's place first
//   Goodbye -> that worker is lost, and nothing that it computed is to blame
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

// One thread at a time. `now` is in milliseconds of a steady clock and never goes back. After each
// call take_actions() says what is to be done, in order.
class ClusterCore {
 public:
  explicit ClusterCore(ClusterCoreOptions options);

  // ---- What workers do ----
  // A worker that proved that it knows the token has opened a stream. Its first message is a Hello.
  void opened(int64_t now, LinkId link);
  void message(int64_t now, LinkId link, cluster::WorkerMessage message);
  void closed(int64_t now, LinkId link);

  // ---- What became of StartWorker ----
  void worker_started(int64_t now, int index, int pid);
  // Also where it could not be started.
  void worker_exited(int64_t now, int index, const ProcessEnd& end);

  // ---- What the owner of the group wants ----
  // A group, as soon as there are workers enough: answered by GroupFormed or Hopeless. One that the
  // owner still has is ended.
  void want_group(int64_t now, const GroupWish& wish = {});
  // While no request runs, a group of fewer ranks than there could be is formed anew.
  void note_demand(int64_t now, Demand demand);
  // A Step or a LogitsRequest for every rank, one at a time: answered by Replies or GroupLost.
  // Dropped where there is no group, since GroupLost was given.
  void exchange(int64_t now, cluster::CoordinatorMessage message);
  // The owner is done with its group, or wants none any more. GroupLost does not follow.
  void end_epoch(int64_t now, const std::string& reason);
  // No group is formed and no worker started any more.
  void shutdown(int64_t now);

  // At least every kTickMs. After a tick that is late by kLateTickMs silence counts from then.
  void tick(int64_t now);

  // A group is formed, every rank was heard lately, and one of them makes progress or none has work
  // to do.
  bool ready(int64_t now) const;
  // Workers that have said Hello and were not lost.
  int joined() const;
  // They, ranks of the group or of the one that is being formed first, in rank order.
  std::vector<WorkerState> workers(int64_t now) const;

  std::vector<ClusterAction> take_actions();

 private:
  enum class How {
    kClosed,   // Its stream is closed already.
    kCut,      // The stream is cancelled, and the process killed if it is ours.
    kSilent,   // The same; nothing was heard of it, so that no step can be what it was lost for.
    kLeft,     // It said goodbye.
    kRefused,  // It is told why first.
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

  // From enough workers to a group and back, in forming.cc.
  void try_form(int64_t now);
  void refuse_odd_ones(int64_t now);
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
  // Ends the epoch. `permanent`: another try would only repeat it.
  void fail_epoch(int64_t now, const absl::Status& why, bool permanent = false);
  void abort_members(const std::string& reason);
  void lose(int64_t now, LinkId link, How how, const std::string& why);
  void give_up(absl::Status why);

  // Spares hold the weights of a whole group's ranks, in spares.cc.
  void cover_ranks();
  void preload(Member& spare, int rank);

  Member& member_of(int rank) { return members_.at(epoch_.links[rank]); }
  void send(std::vector<LinkId> links, cluster::CoordinatorMessage message);
  void log(cluster_action::LogLevel level, std::string line);

  const ClusterCoreOptions options_;
  LocalWorkers local_;
  Members members_;
  // Of the worker started here that joined last. Others have to fit it even while all of ours are
  // dead: they come back.
  std::optional<cluster::Hello> own_;
  Epoch epoch_;
  Regroup regroup_{&options_};
  Speeds speeds_{options_.speeds, options_.measured_speeds};
  uint64_t epochs_ = 0;
  bool wanted_ = false;
  uint64_t last_formed_ = 0;  // The epoch of the last group that was formed; 0: none was.
  bool was_killed_ = false;   // That group: see GroupInfo::follows_a_kill.
  bool over_ = false;
  int64_t form_at_ = INT64_MIN;  // Not before.
  int failed_tries_ = 0;         // In a row.
  int64_t last_tick_ = -1;
  LogLimit refusals_{std::chrono::seconds(1)};
  std::vector<ClusterAction> actions_;
};

}  // namespace lockstep
