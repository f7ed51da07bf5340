// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/workers/roster.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/numbers/numeric_class.h"

namespace lockstep {
namespace {

// Returns the chosen workers by rank; empty: no group yet.
std::vector<LinkId> choose(const Members& members, const std::vector<LinkId>& candidates,
                           const RosterRules& rules) {
  const auto count = [&](const auto& holds) {
    return static_cast<int>(std::count_if(candidates.begin(), candidates.end(),
                                          [&](LinkId link) { return holds(members.at(link)); }));
  };
  const auto all = [&]() -> std::vector<LinkId> {
    if (static_cast<int>(candidates.size()) < rules.workers) return {};
    return choose_ranks(members, candidates, rules.workers);
  };
  if (rules.first) {
    const int regular = count([](const Member& member) { return !is_idle_spare(member); });
    if (regular < rules.workers && !rules.spares_may_start) return {};
    return all();
  }
  const int sound = count([&](const Member& member) {
    return member.failures < kMaxFailures || member.failed_at <= rules.ignore_failures_before;
  });
  const int min = rules.grace_over ? std::max(rules.too_few + 1, rules.min_workers) : rules.workers;
  for (int ranks = std::min(sound, rules.workers); ranks >= std::max(1, min); --ranks) {
    std::vector<LinkId> links = choose_ranks(members, candidates, ranks);
    if (!rules.failed.contains({links.begin(), links.end()})) return links;
  }
  return all();  // If no other group is possible, a failed one is tried again.
}

}  // namespace

Roster choose_roster(const Members& members, const RosterRules& rules) {
  const std::vector<LinkId> all = choose_compatible(members);
  if (!rules.numeric_class.empty()) {
    std::vector<LinkId> able;
    for (const LinkId link : all) {
      const std::string& own = members.at(link).hello->numeric_class();
      if (common_class(own, rules.numeric_class) == rules.numeric_class) able.push_back(link);
    }
    std::vector<LinkId> links = choose(members, able, rules);
    if (!links.empty()) return {std::move(links), rules.numeric_class};
    if (!rules.class_grace_over) return {};
  }
  return {.links = choose(members, all, rules)};
}

int choose_cover(const Members& members, const std::vector<LinkId>& ranks, LinkId spare) {
  const Member& self = members.at(spare);
  const auto count = static_cast<int>(ranks.size());
  const int asked = self.hello->preferred_rank();
  if (self.hello->spare() && asked >= 0 && asked < count) return asked;
  const auto cost = [&](int rank) {
    const Member& worker = members.at(ranks[rank]);
    const auto covers = std::ranges::count_if(members, [&](const auto& other) {
      const Cover& cover = other.second.cover;
      return other.first != spare && cover.rank == rank && cover.state != Cover::State::kFailed;
    });
    return std::tuple(covers, self.cover.rank != rank, worker.own,
                      worker.hello->host() != self.hello->host(), -worker.weight_bytes, rank);
  };
  int best = 0;
  for (int rank = 1; rank < count; ++rank) {
    if (cost(rank) < cost(best)) best = rank;
  }
  return best;
}

}  // namespace lockstep
