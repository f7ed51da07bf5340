// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/coordinator/cluster_checks.h"

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>
#include <utility>

#include "base/status.h"

namespace lockstep::simulation {
namespace {

// The server must not report ready for longer than this after a fault, plus the delay of a slow
// link's messages.
constexpr int64_t kReadyTooLongMs = 2'000;
// Added to the limit for stuck ranks: heartbeats and slow links delay a loss, and so does a pause
// of the coordinator.
constexpr int64_t kSlackMs = 5'000;

// Whether ClusterCore ended the group so that a larger one can be formed. Its reason then starts
// with these words.
bool grows(const std::string& reason) { return reason.starts_with("the group grows"); }

}  // namespace

ClusterChecks::Member* ClusterChecks::member_of(const Link& link) {
  for (Member& member : members_) {
    if (member.link == &link) return &member;
  }
  return nullptr;
}

bool ClusterChecks::any_excused() const {
  // The model does not fit on so few ranks: no worker is at fault.
  if (static_cast<int>(members_.size()) < host_.fitting_ranks) return true;
  return std::any_of(members_.begin(), members_.end(),
                     [](const Member& member) { return member.link->process.excused(); });
}

bool ClusterChecks::only_left() const {
  const auto process = [](const Member& member) -> const Process& { return member.link->process; };
  return std::ranges::any_of(members_, &Process::leaves, process) &&
         std::ranges::all_of(members_, [&](const Member& member) {
           const Process& one = process(member);
           return one.faultless() && (one.alive() || one.leaves());
         });
}

// True if ranks have weights of different checkpoints in memory.
bool ClusterChecks::mixed() const {
  return std::any_of(members_.begin(), members_.end(), [this](const Member& member) {
    return member.link->process.work().checkpoint() !=
           members_[0].link->process.work().checkpoint();
  });
}

// ---- Messages to the coordinator ----

void ClusterChecks::received(const Link& link, const ToCoordinator& message) {
  if (message.has_hello()) roster_.joined(link);
  if (message.has_preloaded()) roster_.preloaded(link, message);
  Member* member = member_of(link);
  if (member == nullptr) return;
  member->received_at = host_.world.now();
  if (message.epoch() != epoch_) return;
  const cluster::Heartbeat& beat = message.heartbeat();
  const bool has_waited = member->beat.waiting() && !beat.waiting();
  if (!message.has_heartbeat() || beat.progress() != member->beat.progress() || has_waited) {
    member->progress_at = host_.world.now();
  }
  if (message.has_heartbeat()) member->beat = beat;
}

void ClusterChecks::ticked() {
  const int64_t now = host_.world.now();
  if (ticked_at_ >= 0 && now - ticked_at_ > kTickMs + kLateTickMs) {
    ++late_ticks_;
    late_tick_at_ = now;
  }
  ticked_at_ = now;
}

// ---- Messages from the coordinator ----

void ClusterChecks::sends(const std::vector<Link*>& links,
                          const cluster::CoordinatorMessage& message) {
  if (message.has_assignment()) {
    if (message.epoch() != epoch_) {
      members_.clear();
      formed_ = false;
      epoch_ = message.epoch();
      reloads_ += message.assignment().reload();
    }
    assigns(links[0], message.assignment());
  } else if (message.has_preload()) {
    if (!formed_ || message.epoch() != epoch_ || member_of(*links[0]) != nullptr) {
      host_.world.broken("pid {} is asked to preload in epoch {}", links[0]->process.pid(),
                         message.epoch());
    }
    roster_.preloads(*links[0], message);
  } else if (message.has_refusal()) {
    refuses(*links[0], message.refusal().reason());
  } else if (message.has_abort() && !owner_acts_ && !grows(message.abort().reason()) &&
             !any_excused() && !mixed()) {
    host_.world.broken("epoch {} is aborted without a fault: {}", message.epoch(),
                       message.abort().reason());
  }
}

void ClusterChecks::assigns(Link* link, const cluster::Assignment& assignment) {
  const int64_t now = host_.world.now();
  members_.push_back({.link = link, .received_at = now, .progress_at = now});
  if (static_cast<int>(members_.size()) < assignment.program().ranks()) return;
  std::vector<const Link*> ranks;
  for (const Member& member : members_) ranks.push_back(member.link);
  roster_.assigned(ranks);
  check_speeds(assignment.program().model());
}

// Checks that groups of the same hosts have the same shards, so that survivors keep their weights.
// Even shards are not compared: nothing was measured yet, or uneven shards did not fit into memory.
void ClusterChecks::check_speeds(const std::string& speeds) {
  std::vector<std::string> hosts;
  for (const Member& member : members_) {
    hosts.push_back(member.link->process.options().hello.host());
  }
  std::set<std::string> values;
  std::istringstream words(speeds);
  for (std::string word; words >> word;) values.insert(word);
  const bool even = values.size() <= 1;
  const bool alike = std::ranges::adjacent_find(hosts, std::not_equal_to<>()) == hosts.end() ||
                     host_.other_read_rate == kReadRate;
  if (!even && alike) host_.world.broken("equal workers, but shards by the speeds {}", speeds);
  uneven_ += !even;
  if (even) return;
  const auto known = speeds_.try_emplace(hosts, speeds).first;
  if (known->second != speeds) {
    host_.world.broken("the same hosts, shards by the speeds {} before, {} now", known->second,
                       speeds);
  }
}

void ClusterChecks::refuses(const Link& link, const std::string& reason) {
  ++refusals_;
  host_.world.log("cluster: refuses pid {}: {}", link.process.pid(), reason);
  if (link.process.excused()) return;
  if (!unfit_joined_) {
    host_.world.broken("pid {} is refused without a fault: {}", link.process.pid(), reason);
  }
  link.process.excuse(kForever);
}

void ClusterChecks::cuts(const Link& link) {
  if (link.process.excused()) return;
  host_.world.broken("pid {} is cut off without a fault", link.process.pid());
}

// ---- The group ----

void ClusterChecks::formed(const GroupInfo& info) {
  host_.world.log("cluster: epoch {} is formed", info.epoch);
  formed_ = true;
  asked_at_ = -1;
  if (info.epoch != epoch_) host_.world.broken("epoch {} is formed, not {}", info.epoch, epoch_);
  roster_.formed();
  if (mixed()) host_.world.broken("the group has weights of different checkpoints");
}

void ClusterChecks::lost(const absl::Status& why) {
  host_.world.log("cluster: epoch {} is lost: {}", epoch_, message_of(why));
  formed_ = false;
  asked_at_ = -1;
  if (grows(message_of(why))) return roster_.grows();
  if (!any_excused()) host_.world.broken("a group is lost without a fault: {}", message_of(why));
}

void ClusterChecks::asked() {
  asked_at_ = host_.world.now();
  for (Member& member : members_) member.progress_at = asked_at_;
}

void ClusterChecks::after_event(bool ready) {
  if (ready) check_ready();
  if (asked_at_ < 0) return;
  const int64_t since = std::max({asked_at_, host_.progressed_at, late_tick_at_});
  const int64_t waited = host_.world.now() - since;
  if (waited > host_.stuck_ms + silent_ms_ + kSlackMs) {
    host_.world.broken("a lost wake-up: no rank answered or made progress for {} ms", waited);
  }
}

// The milliseconds for which the group has been useless: a rank is dead, stopped or cut off, or no
// rank makes progress on a step. Below 0: the group is usable. The simulation sees all processes,
// so it knows this at once; the delays of slow links are subtracted.
int64_t ClusterChecks::over_for() const {
  const int64_t now = host_.world.now();
  int64_t longest = -1, max_extra = 0;
  for (const Member& member : members_) {
    const auto& up = member.link->up;
    max_extra = std::max(max_extra, up.max_extra_ms());
    int64_t since = member.link->process.halted_at();
    if (since < 0 && up.drops()) since = up.dropped_at();
    if (since < 0) continue;
    longest = std::max(longest, now - std::max(since, continued_at_) - up.max_extra_ms());
  }
  if (asked_at_ < 0) return longest;
  const int64_t moved = std::max({asked_at_, host_.progressed_at, continued_at_});
  return std::max(longest, now - moved - max_extra);
}

void ClusterChecks::readiness(bool ready) {
  const bool lost_readiness = std::exchange(was_ready_, ready) && !ready;
  if (ready && !formed_) return host_.world.broken("the server says it is ready without a group");
  const int64_t over_ms = over_for();
  if (ready && over_ms > kReadyTooLongMs) {
    host_.world.broken("the server says it is ready {} ms after a loss or a stuck step", over_ms);
  }
  if (!lost_readiness || over_ms < 0) return;
  ++became_unready_;
  slowest_false_ms_ = std::max(slowest_false_ms_, over_ms);
}

void ClusterChecks::after_tick() const {
  for (const Member& member : members_) {
    const int64_t silence = host_.world.now() - std::max(member.received_at, late_tick_at_);
    if (!formed_ || silence < silent_ms_) continue;
    host_.world.broken("pid {} was silent for {} ms and is still a rank",
                       member.link->process.pid(), silence);
  }
}

void ClusterChecks::check_ready() const {
  const int64_t now = host_.world.now();
  if (!formed_) return host_.world.broken("ready, but no group is formed");
  bool progress = asked_at_ < 0;
  for (const Member& member : members_) {
    const int64_t silence = now - std::max(member.received_at, late_tick_at_);
    if (silence > kReadySilentMs) {
      host_.world.broken("ready, but pid {} was silent for {} ms", member.link->process.pid(),
                         silence);
    }
    progress |= now - std::max(member.progress_at, late_tick_at_) <= kReadyProgressMs;
  }
  if (!progress) host_.world.broken("ready, but no rank makes progress");
}

}  // namespace lockstep::simulation
