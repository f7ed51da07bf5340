// SPDX-License-Identifier: Apache-2.0
// Makes the operands with which kernels are timed and compared, and finds kernels by name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "worker/kernels/device.h"
#include "worker/kernels/find.h"

namespace lockstep {

inline constexpr int64_t kPageTokens = 16;
inline constexpr int64_t kGuardRows = 64;     // After the output; no kernel may write there.
inline constexpr int64_t kCheckedRows = 512;  // The last rows: their bits are compared.

// Numbers of either sign; read as bfloat16 or float32, of magnitudes 0.0078 to 0.12. Any bits are
// valid codes.
inline void write_pattern(std::span<uint16_t> halves) {
  uint32_t random = 1;
  for (uint16_t& half : halves) {
    random = random * 1664525 + 1013904223;
    half = static_cast<uint16_t>(0x3c00 | (random >> 16 & 0x81ff));
  }
}

// Queues copies of the pattern that fill the memory, and waits until the device has made them.
// False if the device failed.
inline bool fill_with_pattern(Device& device, std::span<const DeviceMemory* const> memories) {
  std::vector<uint16_t> pattern((int64_t{4} << 20) + 1);
  write_pattern(pattern);
  const int64_t bytes = static_cast<int64_t>(pattern.size()) * 2;
  for (const DeviceMemory* memory : memories) {
    for (int64_t at = 0; at < memory->bytes(); at += bytes) {
      device.copy_in(memory->data() + at, pattern.data(), std::min(bytes, memory->bytes() - at));
    }
  }
  return device.synchronize() == nullptr;
}

// The GPU's kernel of this name, or null.
inline const KernelEntry* kernel_named(const Device& device, std::string_view name) {
  for (const KernelEntry& kernel : cuda_kernels_of(device)) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

}  // namespace lockstep
