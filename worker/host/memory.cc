// SPDX-License-Identifier: Apache-2.0
#include "worker/host/memory.h"

#include <string>

#include "base/status.h"
#include "base/system/cpu.h"

namespace lockstep {
namespace {

template <typename Memory>
absl::StatusOr<Memory> allocate(Device& device, int64_t bytes, const char* what,
                                const std::string& where, const char* remedy) {
  Memory memory(device, bytes);
  if (memory.data() != nullptr) return memory;
  return resource_exhausted("{} refused {} for {}; {}", where, memory_text(bytes), what, remedy);
}

}  // namespace

std::string memory_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double size = static_cast<double>(bytes);
  int unit = 0;
  for (; unit < 4 && size >= 1024; ++unit) size /= 1024;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", size, kUnits[unit]);
}

int64_t free_bytes_of(const Device& device) {
  return device.is_host() ? memory_free_bytes() : device.free_bytes();
}

int64_t total_bytes_of(const Device& device) {
  return device.is_host() ? memory_total_bytes() : device.total_bytes();
}

absl::StatusOr<DeviceMemory> allocate_memory(Device& device, int64_t bytes, const char* what) {
  if (device.is_host()) {
    return allocate<DeviceMemory>(device, bytes, what, "the system", "raise the limit on memory");
  }
  return allocate<DeviceMemory>(
      device, bytes, what, device.name(),
      "end other processes that use it, or use a smaller --memory-fraction");
}

absl::StatusOr<StagingMemory> allocate_staging(Device& device, int64_t bytes, const char* what) {
  return allocate<StagingMemory>(device, bytes, what, "the system",
                                 "raise the limits on memory and on locked memory");
}

absl::Status device_status(const char* failure, const Device& device) {
  if (failure == nullptr) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("{}: {}{}", device.name(), failure,
                  device.kind().empty() ? "" : "; LOCKSTEP_CHECK_KERNELS=1 names the kernel"));
}

}  // namespace lockstep
