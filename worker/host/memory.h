// SPDX-License-Identifier: Apache-2.0
// A rank's memory on its device: weights, KV pages, values, scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "worker/kernels/device.h"

namespace lockstep {

inline constexpr int64_t kMemoryAlign = 64;

constexpr int64_t align_memory(int64_t bytes) {
  return (bytes + kMemoryAlign - 1) / kMemoryAlign * kMemoryAlign;
}

// "12.3 GiB", for messages.
std::string memory_text(int64_t bytes);

// Free and total memory of the device; for a CPU those of the machine or container. 0: unknown.
int64_t free_bytes_of(const Device& device);
int64_t total_bytes_of(const Device& device);

// The memory is cleared. kResourceExhausted names `what`. 0 bytes: data() is not null.
absl::StatusOr<DeviceMemory> allocate_memory(Device& device, int64_t bytes, const char* what);
absl::StatusOr<StagingMemory> allocate_staging(Device& device, int64_t bytes, const char* what);

// The status for the result of Device::synchronize() or wait(): kInternal names the device.
absl::Status device_status(const char* failure, const Device& device);

}  // namespace lockstep
