// SPDX-License-Identifier: Apache-2.0
// A device without a GPU that works while the host goes on: a thread of its own does what is
// queued, in order, kernels by the shim. Its exchanges (worker/kernels/peer_memory.h) wait for
// those of other such devices, of this process or another one of this user. Memory is the host's.
// No absl.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "worker/kernels/device.h"

namespace lockstep {

struct StreamOptions {
  std::string address = "stream";
  uint32_t seed = 0;  // Not 0: before an exchange it waits for as long as chance has it.
  bool has_peers = true;
  std::string refusal = {};  // Not empty: what open() says to any peer.
  bool lies = false;         // What it gives to sums is wrong.
};

std::unique_ptr<Device> stream_device(const StreamOptions& options = {});

}  // namespace lockstep
