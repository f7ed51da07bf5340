// SPDX-License-Identifier: Apache-2.0
// How ranks of different hosts meet: the higher rank of a pair dials the other one's data port; if
// that fails, the lower one dials as well.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/collectives/hosts/tcp_links.h"
#include "worker/data/data_port.h"

namespace lockstep {

struct DataMeetArgs {
  DataEpoch epoch;
  std::vector<int> hosts;              // Each rank's host.
  std::vector<std::string> addresses;  // Each rank's data port.
  DataPort* port = nullptr;            // This rank's port.
  std::chrono::milliseconds timeout{30'000};
  // The times after which the lower rank begins to dial, and after which an address that cannot be
  // reached is given up.
  std::chrono::milliseconds other_way_after{1'000};
  std::chrono::milliseconds unreachable_after{5'000};
  const std::atomic<bool>* cancelled = nullptr;  // True: ends with kCancelled in about 50 ms.
};

// A connection for each of routes_of(hosts, rank). kUnavailable: this rank and another cannot reach
// each other; the message has both addresses. kDeadlineExceeded names the ranks that are not
// connected.
absl::StatusOr<std::vector<DataLink>> meet_other_hosts(const DataMeetArgs& args);

}  // namespace lockstep
