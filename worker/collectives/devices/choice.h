// SPDX-License-Identifier: Apache-2.0
// How ranks with operands on devices choose their collectives: together, so that all choose the
// same.
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
  int host = 0;       // This host's number: GPUs of two hosts may have equal addresses.
  bool pads = false;  // See PeerLinkArgs.
};

struct CollectiveChoice {
  std::string text;  // The choice and its reason, in a few words; "" if there was no choice.
  // NCCL was expected but failed, or is missing although each rank has its own GPU.
  bool fell_back = false;
};

// `met` connects the ranks through host memory. When they have met, every rank calls this function.
// Ranks on CPUs keep `met`. Ranks on GPUs use NCCL if each has its own GPU and the library, and all
// could connect; else their values go through the host. If all GPUs can also read and write each
// other's memory, sums and small gathers go through that memory. All ranks report the same text,
// except for its part about a rank's own library.
absl::StatusOr<std::unique_ptr<Collective>> device_collective(std::unique_ptr<Collective> met,
                                                              Device& device,
                                                              const DeviceMeeting& meeting,
                                                              CollectiveChoice* choice);

}  // namespace lockstep
