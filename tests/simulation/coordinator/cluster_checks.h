// SPDX-License-Identifier: Apache-2.0
// ClusterCore's promises, checked from outside against the real state of processes and the messages
// that reached the coordinator.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/cluster/cluster_core.h"
#include "tests/simulation/coordinator/roster_checks.h"
#include "tests/simulation/machines/machine.h"

namespace lockstep::simulation {

class ClusterChecks {
 public:
  ClusterChecks(Host* host, int64_t silent_ms) : host_(*host), silent_ms_(silent_ms) {}

  // ---- Events at the core's border; a link is identified by its object ----
  void received(const Link& link, const ToCoordinator& message);
  void sends(const std::vector<Link*>& links, const cluster::CoordinatorMessage& message);
  void cuts(const Link& link);
  // Whether the coordinator has a stream of a worker that cannot be in a group with the regular
  // workers. If so, it may refuse that worker or a regular one: whichever joined later.
  void unfit_joined(bool joined) { unfit_joined_ = joined; }
  void formed(const GroupInfo& info);
  void lost(const absl::Status& why);
  // True if some of the last epoch's members were asked to leave, and no member has another fault.
  bool only_left() const;
  // The core has learned that this stream is over.
  void gone(const Link& link) { roster_.gone(link); }
  // The group's owner, the engine, has left it.
  void left() {
    formed_ = false;
    asked_at_ = -1;
  }
  // A new core started, and epochs begin again.
  void restarted() {
    left();
    epoch_ = 0;
    speeds_.clear();
    roster_.restarted();
  }
  // While `acts` is true, the core sends messages only because the group's owner called it.
  void owner_acts(bool acts) { owner_acts_ = acts; }
  void asked();
  void answered() { asked_at_ = -1; }
  // Runs after each event of the core.
  void after_event(bool ready);
  // Runs after any event; `ready` is what the server would report now.
  void readiness(bool ready);
  // The coordinator was held up until now.
  void continued() { continued_at_ = host_.world.now(); }
  void ticked();
  void after_tick() const;

  int64_t refusals() const { return refusals_; }
  int64_t reloads() const { return reloads_; }
  int64_t uneven() const { return uneven_; }  // Epochs with uneven shards, by measured speeds.
  int64_t late_ticks() const { return late_ticks_; }
  // How often the server stopped reporting ready after a loss or a stuck step; and the longest time
  // from the fault until then.
  int64_t became_unready() const { return became_unready_; }
  int64_t slowest_false_ms() const { return slowest_false_ms_; }
  const RosterChecks& roster() const { return roster_; }
  // The ranks of the formed group; 0 if there is none.
  int ranks() const { return formed_ ? static_cast<int>(members_.size()) : 0; }

 private:
  struct Member {
    Link* link = nullptr;
    int64_t received_at = 0;
    cluster::Heartbeat beat;  // The last heartbeat.
    int64_t progress_at = 0;
  };
  Member* member_of(const Link& link);
  bool any_excused() const;
  bool mixed() const;
  void assigns(Link* link, const cluster::Assignment& assignment);
  void check_speeds(const std::string& speeds);
  void refuses(const Link& link, const std::string& reason);
  void check_ready() const;
  int64_t over_for() const;

  Host& host_;
  RosterChecks roster_{&host_};
  const int64_t silent_ms_;
  uint64_t epoch_ = 0;
  std::vector<Member> members_;  // The last epoch's ranks in order.
  // By the hosts of a group's ranks: the speeds that decided its uneven shards.
  std::map<std::vector<std::string>, std::string> speeds_;
  bool formed_ = false;
  bool owner_acts_ = false;
  bool unfit_joined_ = false;
  int64_t asked_at_ = -1;  // -1: no answer is expected.
  int64_t ticked_at_ = -1;
  int64_t late_tick_at_ = -1;
  int64_t refusals_ = 0;
  int64_t reloads_ = 0;
  int64_t uneven_ = 0;
  int64_t late_ticks_ = 0;
  bool was_ready_ = false;
  int64_t continued_at_ = 0;
  int64_t became_unready_ = 0;
  int64_t slowest_false_ms_ = 0;
};

}  // namespace lockstep::simulation
