// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/workers/member.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/numbers/numeric_class.h"
#include "base/status.h"

namespace lockstep {

std::string name_of(int rank, const Member& member) {
  const std::string name = rank < 0 ? "a worker" : fmt::format("rank {}", rank);
  return member.hello.has_value() ? fmt::format("{} (pid {})", name, member.hello->pid()) : name;
}

const char* role_name(WorkerState::Role role) {
  switch (role) {
    case WorkerState::Role::kServing:
      return "serving";
    case WorkerState::Role::kLoading:
      return "loading";
    case WorkerState::Role::kSpare:
      return "spare";
    case WorkerState::Role::kWaiting:
      return "waiting";
  }
  return "";
}

WorkerState state_of(const Member& member, int64_t now) {
  using Role = WorkerState::Role;
  const cluster::Hello& hello = *member.hello;
  const bool holds = member.cover.state == Cover::State::kHolds;
  return {.role = is_idle_spare(member) ? Role::kSpare : Role::kWaiting,
          .host = hello.host(),
          .pid = hello.pid(),
          .device = hello.device(),
          .isa = hello.isa(),
          .numeric_class = hello.numeric_class(),
          .data_address = hello.data_address(),
          .memory_bytes = hello.memory_bytes(),
          .weight_bytes = member.loaded ? member.weight_bytes : 0,
          .covers = holds ? member.cover.rank : -1,
          .covers_ms = holds ? now - member.cover.since : 0,
          .joined_ms = now - member.joined_at,
          .heard_ms = now - member.received_at};
}

std::string why_incompatible(const cluster::Hello& hello, const cluster::Hello& peer) {
  if (hello.host() != peer.host() &&
      (hello.data_address().empty() || peer.data_address().empty())) {
    return fmt::format(
        "it is on another host than its peers, and {} no port for their data: start workers with "
        "--data-listen ADDRESS:PORT and --cluster-cert or --insecure cluster, or all of them on "
        "one host, as one user",
        hello.data_address().empty() ? "has" : "they have");
  }
  if (!hello.data_address().empty() && !peer.data_address().empty() &&
      hello.data_tls() != peer.data_tls()) {
    return fmt::format(
        "its data port uses {}, its peers' data ports use {}: start all workers with "
        "--cluster-cert, "
        "--cluster-key and --cluster-ca, or none",
        hello.data_tls() ? "TLS" : "plain text", peer.data_tls() ? "TLS" : "plain text");
  }
  if (!common_class(hello.numeric_class(), peer.numeric_class())) {
    return fmt::format(
        "it ({}) computes in numeric class {}, its peers ({}) in {}: give all workers the same "
        "--device, GPUs of one kind and one version of cuBLASLt",
        printable(hello.device()), printable(hello.numeric_class()), printable(peer.device()),
        printable(peer.numeric_class()));
  }
  return "";
}

std::vector<LinkId> choose_compatible(const Members& members) {
  std::vector<LinkId> best;
  std::pair<int, size_t> best_rating;
  for (const auto& [first, member] : members) {
    std::vector<LinkId> set;
    int known = 0;
    for (const auto& [link, peer] : members) {
      if (!member.hello.has_value() || !peer.hello.has_value()) continue;
      if (!why_incompatible(*peer.hello, *member.hello).empty()) continue;
      set.push_back(link);
      known += peer.known;
    }
    const std::pair rating(known, set.size());
    if (rating <= best_rating) continue;
    best_rating = rating;
    best = std::move(set);
  }
  return best;
}

namespace {

// A member's claim to a rank.
struct Claim {
  enum Kind { kHad, kHolds, kOther };  // In the order of precedence.
  Kind kind = kOther;
  int rank = -1;  // -1: none.
};

Claim claim_of(const Members& members, const std::vector<LinkId>& candidates, LinkId link,
               int ranks) {
  const Member& member = members.at(link);
  const Cover& cover = member.cover;
  const int asked = member.hello->preferred_rank();
  const bool was_rank = member.last_ranks == ranks;
  const bool is_replaced =
      asked == member.last_rank && std::ranges::any_of(candidates, [&](LinkId newer) {
        return newer > link && members.at(newer).hello->preferred_rank() == asked;
      });
  if (was_rank && !is_replaced) return {Claim::kHad, member.last_rank};
  if (cover.state == Cover::State::kHolds && cover.rank < ranks) return {Claim::kHolds, cover.rank};
  if (asked >= 0 && asked < ranks) return {Claim::kOther, asked};
  return {Claim::kOther, cover.rank >= 0 ? cover.rank : member.last_rank};
}

}  // namespace

std::vector<LinkId> choose_ranks(const Members& members, const std::vector<LinkId>& candidates,
                                 int ranks) {
  std::map<std::tuple<int, bool, Claim::Kind>, std::vector<LinkId>> by_order;
  std::map<LinkId, Claim> claims;
  for (const LinkId link : candidates) {
    const Member& member = members.at(link);
    const Claim claim = claims[link] = claim_of(members, candidates, link, ranks);
    by_order[{member.failures, is_idle_spare(member), claim.kind}].push_back(link);
  }
  std::vector<LinkId> chosen(ranks, 0);
  std::vector<bool> taken(ranks, false);
  for (const auto& [order, links] : by_order) {
    std::vector<LinkId> others;  // The oldest is last.
    for (auto link = links.rbegin(); link != links.rend(); ++link) {
      const int rank = claims[*link].rank;
      if (rank < 0 || rank >= ranks || taken[rank]) {
        others.push_back(*link);
        continue;
      }
      chosen[rank] = *link;
      taken[rank] = true;
    }
    for (int rank = 0; rank < ranks && !others.empty(); ++rank) {
      if (taken[rank]) continue;
      chosen[rank] = others.back();
      taken[rank] = true;
      others.pop_back();
    }
  }
  return chosen;
}

int find_stuck(const std::vector<const Member*>& ranks, const std::vector<bool>& unanswered,
               int64_t now, int64_t stuck_ms) {
  int last = -1;
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) {
    if (!unanswered[rank]) continue;
    const auto key = [&](int r) { return std::tuple(ranks[r]->waiting, ranks[r]->progress, r); };
    if (last < 0 || key(rank) < key(last)) last = rank;
  }
  if (last < 0) return -1;
  int64_t progress_at = ranks[last]->progress_at;
  if (ranks[last]->waiting) {
    for (const Member* peer : ranks) progress_at = std::max(progress_at, peer->progress_at);
  }
  return now - progress_at < stuck_ms ? -1 : last;
}

}  // namespace lockstep
