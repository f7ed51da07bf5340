// SPDX-License-Identifier: Apache-2.0
// Collectives between GPUs by NCCL.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/collectives/collective.h"
#include "worker/collectives/devices/nccl_library.h"
#include "worker/kernels/device.h"

namespace lockstep {

// `met` sends the communicator's id from rank 0 to the others. Then all connect and gather once,
// within half of `timeout`, and share the outcome. If one rank failed, all get null with the same
// `problem`, and `met` stays the caller's. Else the new collective owns `met`, and its abort()
// aborts `met`, too. An error comes from `met`, or is kAborted after `cancelled` became true. Calls
// queue work on the device, and may block for at most `timeout`; finish() waits for the work, for
// at most the same time. all_reduce adds in an order that NCCL chooses by the number of bytes: an
// element's bits depend on that number. After any error the communicator is aborted, never
// destroyed, and every later call fails with that error.
absl::StatusOr<std::unique_ptr<Collective>> nccl_collective(
    const Nccl& nccl, std::unique_ptr<Collective>& met, Device& device,
    std::chrono::nanoseconds timeout, const std::atomic<bool>* cancelled, std::string* problem);

}  // namespace lockstep
