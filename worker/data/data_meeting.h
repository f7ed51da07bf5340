// SPDX-License-Identifier: Apache-2.0
// How ranks of different hosts meet: of a pair the higher rank dials the other one's data port; if
// that does not work, the lower one dials as well.
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
  std::vector<int> hosts;              // Of every rank.
  std::vector<std::string> addresses;  // Of every rank's data port.
  DataPort* port = nullptr;            // This rank's.
  std::chrono::milliseconds timeout{30'000};
  // The lower rank begins to dial, and an address that cannot be reached is given up.
  std::chrono::milliseconds other_way_after{1'000};
  std::chrono::milliseconds unreachable_after{5'000};
  const std::atomic<bool>* cancelled = nullptr;  // Ends it within about 50 ms, with kCancelled.
};

// A connection for each of routes_of(hosts, rank). kUnavailable: a pair cannot reach each other;
// the message has both addresses. kDeadlineExceeded names the ranks that did not come.
absl::StatusOr<std::vector<DataLink>> meet_other_hosts(const DataMeetArgs& args);

}  // namespace lockstep
