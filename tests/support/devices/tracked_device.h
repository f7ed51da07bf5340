// SPDX-License-Identifier: Apache-2.0
// A device that records the memory it has, so that a test finds a kernel that gets host memory.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "tests/support/devices/wrapped_device.h"

namespace lockstep {

class TrackedDevice final : public WrappedDevice {
 public:
  // `readable`: the host can read its memory.
  TrackedDevice(std::unique_ptr<Device> inner, bool readable)
      : WrappedDevice(std::move(inner)), readable_(readable) {}

  std::byte* allocate(int64_t bytes) override {
    std::byte* const memory = WrappedDevice::allocate(bytes);
    if (memory != nullptr) pieces_[memory] = std::max<int64_t>(bytes, 1);
    return memory;
  }
  void release(std::byte* memory, int64_t bytes) override {
    pieces_.erase(memory);
    WrappedDevice::release(memory, bytes);
  }

  // Whether memory that was allocated and not released has this address.
  bool has(const void* address) const {
    const auto* const at = static_cast<const std::byte*>(address);
    const auto after = pieces_.upper_bound(at);
    if (after == pieces_.begin()) return false;
    const auto& [begin, bytes] = *std::prev(after);
    return at < begin + bytes;
  }
  bool readable() const { return readable_; }

 private:
  const bool readable_;
  std::map<const std::byte*, int64_t> pieces_;
};

}  // namespace lockstep
