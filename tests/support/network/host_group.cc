// SPDX-License-Identifier: Apache-2.0
#include "tests/support/network/host_group.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/sockets/address.h"
#include "base/status.h"
#include "worker/collectives/host/region.h"
#include "worker/collectives/hosts/routes.h"
#include "worker/collectives/hosts/tcp_socket.h"

namespace lockstep::testing {
namespace {

FileDescriptor wait_for(FileDescriptor socket, short events) {
  pollfd polled{.fd = socket.get(), .events = events, .revents = 0};
  EXPECT_EQ(poll(&polled, 1, 10'000), 1);
  return socket;
}

// Both ends of a connection, the dialling end first.
std::pair<FileDescriptor, FileDescriptor> connected(int from, int to,
                                                    const HostGroupOptions& options) {
  absl::StatusOr<FileDescriptor> listener = listen_tcp("127.0.0.1:0", 8);
  EXPECT_TRUE(listener.ok()) << listener.status();
  std::string address = local_address(listener->get());
  if (options.way != nullptr) address = options.way(from, to, address);
  absl::StatusOr<FileDescriptor> dialled = dial_tcp(address);
  EXPECT_TRUE(dialled.ok()) << dialled.status();
  const FileDescriptor called = wait_for(*std::move(listener), POLLIN);
  absl::StatusOr<FileDescriptor> accepted = accept_tcp(called);
  EXPECT_TRUE(accepted.ok()) << accepted.status();
  return {wait_for(*std::move(dialled), POLLOUT), *std::move(accepted)};
}

std::unique_ptr<DataChannel> channel_over(FileDescriptor socket, bool dialled,
                                          const HostGroupOptions& options) {
  return options.channel == nullptr ? plain_channel(std::move(socket))
                                    : options.channel(std::move(socket), dialled);
}

}  // namespace

std::vector<std::unique_ptr<Collective>> host_group(const std::vector<int>& hosts,
                                                    const HostGroupOptions& options) {
  const int ranks = static_cast<int>(hosts.size());
  std::vector<std::vector<DataLink>> links(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Route& route : routes_of(hosts, rank)) {
      if (route.rank > rank) continue;
      auto [own, other] = connected(rank, route.rank, options);
      const Route back{.rank = rank, .sends = route.receives, .receives = route.sends};
      links[rank].push_back({route, channel_over(std::move(own), true, options),
                             fmt::format("host {}", hosts[route.rank])});
      links[route.rank].push_back({back, channel_over(std::move(other), false, options),
                                   fmt::format("host {}", hosts[rank])});
    }
  }
  std::map<int, std::shared_ptr<Region>> regions;
  std::vector<std::unique_ptr<Collective>> group;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<int> here = ranks_of_host(hosts, hosts[rank]);
    std::shared_ptr<Region>& region = regions[hosts[rank]];
    if (region == nullptr) {
      region = Region::in_process({.ranks = static_cast<int>(here.size()),
                                   .shared_bytes = options.shared_bytes,
                                   .numbers = here,
                                   .slots = ranks});
    }
    group.push_back(std::make_unique<SharedMemoryCollective>(
        region, static_cast<int>(std::ranges::find(here, rank) - here.begin()), options.timeout,
        hosts, std::make_unique<TcpLinks>(std::move(links[rank]))));
  }
  return group;
}

std::string text_of(const std::vector<int>& hosts) {
  std::string text = "hosts of ranks:";
  for (const int host : hosts) text += fmt::format(" {}", host);
  return text;
}

std::vector<std::vector<int>> all_host_groups(int ranks) {
  std::vector<std::vector<int>> all;
  std::vector<std::vector<int>> last = {{0}};
  for (int count = 1; count <= ranks; ++count) {
    all.insert(all.end(), last.begin(), last.end());
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& hosts : last) {
      const int fresh = std::min(2, *std::ranges::max_element(hosts) + 1);
      for (int host = 0; host <= fresh; ++host) {
        longer.push_back(hosts);
        longer.back().push_back(host);
      }
    }
    last = std::move(longer);
  }
  return all;
}

}  // namespace lockstep::testing
