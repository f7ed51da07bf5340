// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/coordinator/roster_checks.h"

#include <algorithm>

#include "coordinator/cluster/forming/regroup.h"
#include "coordinator/cluster/workers/roster.h"

namespace lockstep::simulation {

void RosterChecks::gone(const Link& link) {
  now_.joined.erase(&link);
  now_.covers.erase(&link);
  if (now_.used.erase(&link) == 0) return;
  ++now_.gone;
  const auto& ranks = now_.ranks;
  if (std::find(ranks.begin(), ranks.end(), &link) != ranks.end()) {
    now_.gone_at = host_.world.now();
  }
}

bool RosterChecks::is_idle_spare(const Link* link) const {
  return link->process.options().hello.spare() && !now_.used.contains(link);
}

// Checks that no rank is covered by fewer spares than the rank that this spare must preload.
void RosterChecks::preloads(const Link& link, const cluster::CoordinatorMessage& message) {
  const int rank = message.preload().program().rank();
  std::vector<int> covers(now_.ranks.size());
  for (const auto& [other, cover] : now_.covers) {
    if (other != &link && cover.rank < static_cast<int>(covers.size())) ++covers[cover.rank];
  }
  if (covers.at(rank) > *std::ranges::min_element(covers)) {
    host_.world.broken("pid {} must preload rank {}, which {} other spares cover already",
                       link.process.pid(), rank, covers[rank]);
  }
  now_.covers[&link] = {.epoch = message.epoch(), .rank = rank};
}

void RosterChecks::preloaded(const Link& link, const cluster::WorkerMessage& message) {
  const auto found = now_.covers.find(&link);
  if (found == now_.covers.end() || found->second.epoch != message.epoch()) return;
  if (message.preloaded().has_failure()) {
    now_.covers.erase(found);
  } else {
    found->second.holds = true;
  }
}

// Checks that a rank goes to a spare that holds its weights before it goes to any other spare.
void RosterChecks::check_covers() {
  const auto holds = [this](const Link* link, int rank) {
    const auto found = now_.covers.find(link);
    return found != now_.covers.end() && found->second.holds && found->second.rank == rank;
  };
  for (int rank = 0; rank < static_cast<int>(now_.ranks.size()); ++rank) {
    const Link* const taker = now_.ranks[static_cast<size_t>(rank)];
    if (!is_idle_spare(taker)) continue;
    covered_ += holds(taker, rank);
    if (holds(taker, rank)) continue;
    for (const Link* other : now_.joined) {
      if (!is_idle_spare(other) || !holds(other, rank)) continue;
      host_.world.broken("rank {} goes to pid {}, but pid {} holds its weights", rank,
                         taker->process.pid(), other->process.pid());
    }
  }
  for (const Link* link : now_.ranks) now_.covers.erase(link);
}

int64_t RosterChecks::sound() const {
  return std::count_if(now_.joined.begin(), now_.joined.end(), [](const Link* link) {
    return !link->process.excused() && link->process.work().failed_loads() < kMaxFailures;
  });
}

void RosterChecks::assigned(const std::vector<const Link*>& ranks) {
  World& world = host_.world;
  const auto wanted = static_cast<size_t>(host_.model.ranks);
  const auto is_idle = [this](const Link* link) { return is_idle_spare(link); };
  const auto idle = std::count_if(ranks.begin(), ranks.end(), is_idle);
  const auto others = std::count_if(now_.joined.begin(), now_.joined.end(), [&](const Link* link) {
    // The core uses a worker that failed only after the spares, so it does not count here.
    const bool sound = !link->process.excused() && link->process.faultless();
    return sound && link->process.work().failed_loads() == 0 && !is_idle_spare(link);
  });
  if (idle > 0 && others >= static_cast<int64_t>(wanted)) {
    world.broken("{} spares are used, but {} others have joined", idle, others);
  }
  if (now_.formed_once) spares_ += idle;
  check_survivors(ranks);
  now_.ranks = ranks;
  if (ranks.size() < wanted) check_smaller();
  check_covers();
  now_.used.insert(ranks.begin(), ranks.end());
}

// Checks that a worker of the last epoch gets the same rank in an equally large group, and so keeps
// its weights, unless it failed or was restarted.
void RosterChecks::check_survivors(const std::vector<const Link*>& ranks) const {
  if (ranks.size() != now_.ranks.size()) return;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Link* const had = now_.ranks[rank];
    if (ranks[rank] == had || std::ranges::count(ranks, had) == 0) continue;
    if (had->process.excused() || !had->process.faultless()) continue;
    if (had->process.work().failed_loads() > 0) continue;
    host_.world.broken("pid {} had rank {}, which goes to pid {}", had->process.pid(), rank,
                       ranks[rank]->process.pid());
  }
}

void RosterChecks::check_smaller() const {
  World& world = host_.world;
  const auto ranks = static_cast<int>(now_.ranks.size());
  if (!now_.formed_once) world.broken("the first group has only {} ranks", ranks);
  if (ranks < host_.min_workers) {
    world.broken("a group has {} ranks, the minimum is {}", ranks, host_.min_workers);
  }
  if (sound() >= host_.model.ranks) {
    world.broken("a group has {} ranks, but {} workers without a fault have joined", ranks,
                 sound());
  }
  const bool in_grace = now_.gone_at >= 0 && now_.gone <= kMaxGraces && !now_.growing &&
                        world.now() - now_.gone_at < host_.grace_ms;
  if (in_grace) {
    world.broken("a group has only {} ranks {} ms after a worker was lost", ranks,
                 world.now() - now_.gone_at);
  }
}

void RosterChecks::formed() {
  const auto ranks = static_cast<int>(now_.ranks.size());
  if (ranks < host_.model.ranks) ++smaller_;
  if (ranks < host_.fitting_ranks) {
    host_.world.broken("the model does not fit on a group of {} ranks", ranks);
  }
  if (now_.growing && ranks > now_.ranks_before) ++grown_;
  now_.formed_once = true;
  now_.growing = false;
  now_.gone = 0;
  now_.gone_at = -1;
}

void RosterChecks::grows() {
  World& world = host_.world;
  if (now_.joined.size() <= now_.ranks.size()) world.broken("a group grows without a worker");
  // The last attempt to grow was with the same workers, and gave no more ranks.
  const bool again = now_.grew_at >= 0 && now_.grew_with == now_.joined &&
                     static_cast<int>(now_.ranks.size()) <= now_.ranks_before;
  if (again && world.now() - now_.grew_at < host_.regrow_ms) {
    world.broken("a group grows in a loop: {} ms after the last try", world.now() - now_.grew_at);
  }
  now_.growing = true;
  now_.ranks_before = static_cast<int>(now_.ranks.size());
  now_.grew_at = world.now();
  now_.grew_with = now_.joined;
}

}  // namespace lockstep::simulation
