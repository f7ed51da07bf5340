// SPDX-License-Identifier: Apache-2.0
// How ranks whose operands lie on devices meet: decided together, so that all choose alike.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/collectives/collective.h"
#include "worker/collectives/shared_memory.h"
#include "worker/kernels/device.h"

namespace lockstep {

struct DeviceMeeting {
  std::chrono::nanoseconds timeout = kCollectiveTimeout;  // Of setting up, and of every step.
  const std::atomic<bool>* cancelled = nullptr;           // Ends the setting up once it is true.
};

// `met` joins the ranks on the host; every rank calls this next. A processor's ranks go on with it
// as it is. GPUs take NCCL where each rank has one of its own and a library, else they go by way of
// the host. `choice` says in some words what it came to and why; "" where there was nothing to
// choose. The environment's LOCKSTEP_NCCL names another library, or is "off".
absl::StatusOr<std::unique_ptr<Collective>> device_collective(std::unique_ptr<Collective> met,
                                                              Device& device,
                                                              const DeviceMeeting& meeting,
                                                              std::string* choice);

}  // namespace lockstep
