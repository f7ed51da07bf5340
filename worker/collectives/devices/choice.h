// SPDX-License-Identifier: Apache-2.0
// How ranks whose operands are on devices meet: decided together, so that all choose alike.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/collectives/collective.h"
#include "worker/collectives/host/shared_memory.h"
#include "worker/kernels/device.h"

namespace lockstep {

struct DeviceMeeting {
  std::chrono::nanoseconds timeout = kCollectiveTimeout;  // Of setting up, and of every step.
  const std::atomic<bool>* cancelled = nullptr;           // Ends the setting up once it is true.
  std::string nccl;   // Which library to look for: see load_nccl().
  int host = 0;       // A number of this rank's host: GPUs of two hosts may have one address.
  bool pads = false;  // See PeerLinkArgs.
};

struct CollectiveChoice {
  std::string text;  // What it came to and why, in some words; "": there was no choice.
  // NCCL should have done it: it failed, or is not there though each rank has a GPU of its own.
  bool fell_back = false;
};

// `met` joins the ranks on the host; every rank calls this next. A processor's ranks go on with it
// as it is. GPUs take NCCL where each rank has one of its own and a library and all could connect
// by it, else they go by way of the host. Where in addition all reach each other's memory, sums and
// small gathers go there. All choose alike, with the same words but for what a rank says of its own
// library.
absl::StatusOr<std::unique_ptr<Collective>> device_collective(std::unique_ptr<Collective> met,
                                                              Device& device,
                                                              const DeviceMeeting& meeting,
                                                              CollectiveChoice* choice);

}  // namespace lockstep
