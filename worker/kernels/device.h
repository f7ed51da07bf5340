// SPDX-License-Identifier: Apache-2.0
// Where kernels run and their operands lie: the processor and its memory, or a GPU and its own.
// Weights, states, values and scratch are allocated here, a step goes in and its answers come out.
// No absl, so that kernels and their tests build on a bare machine; errors are one line of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace lockstep {

inline constexpr int64_t kDeviceAlign = 256;

// One thread at a time. Copies and kernels take effect in the order in which they were queued;
// host memory that takes part must stay until synchronize().
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  virtual int64_t total_bytes() const = 0;  // 0: unknown.
  virtual int64_t free_bytes() const = 0;

  // The device's memory, aligned to kDeviceAlign, holding anything; null where there is no room.
  // release() waits for nothing: synchronize() first.
  virtual std::byte* allocate(int64_t bytes) = 0;
  virtual void release(std::byte* memory) = 0;
  // Host memory that copies are fastest from and to; null where there is none.
  virtual std::byte* allocate_staging(int64_t bytes) = 0;
  virtual void release_staging(std::byte* memory) = 0;

  virtual void copy_in(std::byte* to, const void* from, int64_t bytes) = 0;
  virtual void copy_out(void* to, const std::byte* from, int64_t bytes) = 0;
  virtual void clear(std::byte* memory, int64_t bytes) = 0;  // To zeros.

  // What kernels get as KernelArgs::queue.
  virtual void* queue() const = 0;
  // Waits for all that was queued. Null, or the first thing that went wrong since the device was
  // opened: what memory holds is then undefined, and the device is of no more use.
  virtual const char* synchronize() = 0;
  // Whoever launches kernels from another thread than the one that opened the device says so first.
  virtual void use_from_this_thread() = 0;
};

// Memory of a device, given back at the end. Empty where there was no room.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(Device& device, int64_t bytes) : device_(&device), data_(device.allocate(bytes)) {}
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) device_->release(data_);
  }
  std::byte* data() const { return data_; }

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
};

// The processor: memory is the host's, everything is done when a call returns.
std::unique_ptr<Device> host_device();

// GPUs that this process may use; `problem` says in one line why there are none.
int cuda_device_count(std::string* problem);
// Null, and why in one line.
std::unique_ptr<Device> open_cuda_device(int index, std::string* problem);

}  // namespace lockstep
