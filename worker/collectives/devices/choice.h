// SPDX-License-Identifier: Apache-2.0
// How ranks with operands on devices meet: they decide together, so that all make the same choice.
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
  std::chrono::nanoseconds timeout = kCollectiveTimeout;  // For setting up, and for every step.
  const std::atomic<bool>* cancelled = nullptr;           // If it turns true, setting up ends.
  std::string nccl;   // The library to look for: see load_nccl().
  int host = 0;       // A number of this rank's host: GPUs of two hosts may have equal addresses.
  bool pads = false;  // See PeerLinkArgs.
};

struct CollectiveChoice {
  std::string text;  // The choice and its reason, in a few words; "" if there was no choice.
  // NCCL was expected but failed, or is missing although each rank has its own GPU.
  bool fell_back = false;
};

// `met` joins the ranks on the host; every rank calls this next. Ranks on CPUs keep `met`. GPUs use
// NCCL if each rank has its own GPU and the library and all could connect, else they go through the
// host. If all also reach each other's memory, sums and small gathers use it. All make the same
// choice, and report it in the same words, except for what a rank says about its own library.
absl::StatusOr<std::unique_ptr<Collective>> device_collective(std::unique_ptr<Collective> met,
                                                              Device& device,
                                                              const DeviceMeeting& meeting,
                                                              CollectiveChoice* choice);

}  // namespace lockstep
