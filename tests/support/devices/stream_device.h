// SPDX-License-Identifier: Apache-2.0
// A device without a GPU that works while the host continues: its own thread runs queued work in
// order. Its exchanges (worker/kernels/peer_memory.h) are the shim's kernels. Each kernel waits for
// the same exchange on other such devices, in this process or in another process of this user. The
// device's memory is the host's. Does not use absl.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "worker/kernels/device.h"

namespace lockstep {

struct StreamOptions {
  std::string address = "stream";
  uint32_t seed = 0;  // Not 0: the seed of random delays before exchanges.
  bool has_peers = true;
  std::string refusal = {};  // Not empty: the error of open() for any peer.
  bool lies = false;         // This device contributes wrong values to sums.
};

std::unique_ptr<Device> stream_device(const StreamOptions& options = {});

}  // namespace lockstep
