// SPDX-License-Identifier: Apache-2.0
// Who sends what to whom in a group that spans hosts. Ranks of one host share memory, so a rank
// sends its part only once to each other host. If the sender is number i on its own host, the
// receiver on the other host is number i modulo the number of ranks there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

// A rank of another host to which a rank is connected.
struct Route {
  int rank = 0;
  bool sends = false;     // This rank's part is sent there.
  bool receives = false;  // That rank's part is received here, for all ranks of this host.

  bool operator==(const Route&) const = default;
};

// hosts[r] is equal for ranks of one host, and differs between hosts.
std::vector<int> ranks_of_host(std::span<const int> hosts, int host);

// The routes of `rank`, in the order of the other ends' ranks. If one end of a connection sends,
// the other end receives.
std::vector<Route> routes_of(std::span<const int> hosts, int rank);

// Ranks ordered by the first rank of their host, then by their own number: a host's ranks are
// adjacent.
std::vector<int> by_host(std::span<const int> hosts);

}  // namespace lockstep
