// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/hosts/routes.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep {
namespace {

// The rank of host `to` that receives what `rank` sends.
int receiver_of(std::span<const int> hosts, int rank, int to) {
  const std::vector<int> here = ranks_of_host(hosts, hosts[rank]);
  const std::vector<int> there = ranks_of_host(hosts, to);
  const size_t place = std::ranges::find(here, rank) - here.begin();
  return there[place % there.size()];
}

}  // namespace

std::vector<int> ranks_of_host(std::span<const int> hosts, int host) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank] == host) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

std::vector<Route> routes_of(std::span<const int> hosts, int rank) {
  LOCKSTEP_CHECK(0 <= rank && rank < static_cast<int>(hosts.size()));
  std::vector<Route> routes;
  for (int other = 0; other < static_cast<int>(hosts.size()); ++other) {
    if (hosts[other] == hosts[rank]) continue;
    const Route route{.rank = other,
                      .sends = receiver_of(hosts, rank, hosts[other]) == other,
                      .receives = receiver_of(hosts, other, hosts[rank]) == rank};
    if (route.sends || route.receives) routes.push_back(route);
  }
  return routes;
}

std::vector<int> by_host(std::span<const int> hosts) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    if (std::ranges::find(hosts, hosts[rank]) - hosts.begin() < static_cast<ptrdiff_t>(rank)) {
      continue;
    }
    for (const int one : ranks_of_host(hosts, hosts[rank])) ranks.push_back(one);
  }
  return ranks;
}

}  // namespace lockstep
