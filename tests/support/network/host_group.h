// SPDX-License-Identifier: Apache-2.0
// A group on hosts that are made up: ranks are threads of one process, those of one host share
// memory, and between hosts they have TCP connections over loopback.
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
  // The address that `from` dials in place of `address`, where `to` listens: a relay's. Null: that.
  std::function<std::string(int from, int to, const std::string& address)> way = nullptr;
  // What goes over a connection, of whoever dialled it or the other side. Null: bytes as they are.
  std::function<std::unique_ptr<DataChannel>(FileDescriptor socket, bool dialled)> channel =
      nullptr;
};

// hosts[r] is rank r's.
std::vector<std::unique_ptr<Collective>> host_group(const std::vector<int>& hosts,
                                                    const HostGroupOptions& options = {});

// "0 0 1" for tests' messages.
std::string text_of(const std::vector<int>& hosts);

// Every way in which 1 to `ranks` ranks may be on 1 to 3 hosts.
std::vector<std::vector<int>> all_host_groups(int ranks);

}  // namespace lockstep::testing
