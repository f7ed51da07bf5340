// SPDX-License-Identifier: Apache-2.0
// A group on simulated hosts: ranks are threads of one process, ranks of one host share memory, and
// ranks of different hosts have TCP connections over loopback.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/sockets/data_channel.h"
#include "worker/collectives/collective.h"
#include "worker/collectives/host/shared_memory.h"

namespace lockstep::testing {

struct HostGroupOptions {
  std::chrono::nanoseconds timeout = kCollectiveTimeout;
  int64_t shared_bytes = 0;
  // The address that `from` dials to reach `to`, which listens at `address`: for example a relay's.
  // Null: `address`.
  std::function<std::string(int from, int to, const std::string& address)> way = nullptr;
  // Makes the channel of either end of a connection. Null: a plain byte stream.
  std::function<std::unique_ptr<DataChannel>(FileDescriptor socket, bool dialled)> channel =
      nullptr;
};

// One collective per rank; hosts[r] is rank r's host.
std::vector<std::unique_ptr<Collective>> host_group(const std::vector<int>& hosts,
                                                    const HostGroupOptions& options = {});

// Text for tests' messages: "hosts of ranks: 0 0 1".
std::string text_of(const std::vector<int>& hosts);

// Every way to place 1 to `ranks` ranks on 1 to 3 hosts.
std::vector<std::vector<int>> all_host_groups(int ranks);

}  // namespace lockstep::testing
