// SPDX-License-Identifier: Apache-2.0
// What ClusterCore promises, checked from outside: by what really becomes of processes, and by what
// has reached the coordinator.
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

  // ---- What happens at the core's border; links by their objects ----
  void received(const Link& link, const ToCoordinator& message);
  void sends(const std::vector<Link*>& links, const cluster::CoordinatorMessage& message);
  void cuts(const Link& link);
  // The coordinator has a stream of a worker that cannot be in one group with ours: either is
  // refused, whichever came first.
  void unfit_joined(bool joined) { unfit_joined_ = joined; }
  void formed(const GroupInfo& info);
  void lost(const absl::Status& why);
  // Of the last epoch's members: some were told to leave, and nothing else is wrong with any.
  bool only_left() const;
  // The core knows that this stream is over.
  void gone(const Link& link) { roster_.gone(link); }
  // The owner is done with the group.
  void left() {
    formed_ = false;
    asked_at_ = -1;
  }
  // Another core is there, and its epochs begin anew.
  void restarted() {
    left();
    epoch_ = 0;
    speeds_.clear();
    roster_.restarted();
  }
  // Everything that is sent until it is false follows from what the owner did.
  void owner_acts(bool acts) { owner_acts_ = acts; }
  void asked();
  void answered() { asked_at_ = -1; }
  // After each event of the core.
  void after_event(bool ready);
  // After any event: what somebody who asks the server would be told.
  void readiness(bool ready);
  // The coordinator was held up until now.
  void continued() { continued_at_ = host_.world.now(); }
  void ticked();
  void after_tick() const;

  int64_t refusals() const { return refusals_; }
  int64_t reloads() const { return reloads_; }
  int64_t uneven() const { return uneven_; }  // Epochs whose parts were by what was measured.
  int64_t late_ticks() const { return late_ticks_; }
  // Times at which readiness turned false after a loss or a wedge, and the longest time until then.
  int64_t turned_false() const { return turned_false_; }
  int64_t slowest_false_ms() const { return slowest_false_ms_; }
  const RosterChecks& roster() const { return roster_; }
  // Of the group that is formed; 0: none is.
  int ranks() const { return formed_ ? static_cast<int>(members_.size()) : 0; }

 private:
  struct Member {
    Link* link = nullptr;
    int64_t heard_at = 0;
    cluster::Heartbeat beat;  // The last one.
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
  std::vector<Member> members_;  // Of the last epoch, by rank.
  // By which uneven parts of groups of these hosts, in order of ranks, were cut.
  std::map<std::vector<std::string>, std::string> speeds_;
  bool formed_ = false;
  bool owner_acts_ = false;
  bool unfit_joined_ = false;
  int64_t asked_at_ = -1;  // -1: nothing is awaited.
  int64_t ticked_at_ = -1;
  int64_t late_tick_at_ = -1;
  int64_t refusals_ = 0;
  int64_t reloads_ = 0;
  int64_t uneven_ = 0;
  int64_t late_ticks_ = 0;
  bool was_ready_ = false;
  int64_t continued_at_ = 0;
  int64_t turned_false_ = 0;
  int64_t slowest_false_ms_ = 0;
};

}  // namespace lockstep::simulation
