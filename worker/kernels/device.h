// SPDX-License-Identifier: Apache-2.0
// Where kernels run and their operands are: the processor and its memory, or a GPU and its memory.
// Weights, states, values and scratch are allocated here; a step is copied in, its answers out.
// No absl, so that kernels and their tests build on a bare machine; errors are one line of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

class PeerAccess;  // peer_memory.h

inline constexpr int64_t kDeviceAlign = 256;

// Rows of bytes with a stride on either side; each side is the device's memory or staging memory.
struct RowCopy {
  void* to = nullptr;
  int64_t to_stride = 0;
  const void* from = nullptr;
  int64_t from_stride = 0;
  int64_t row_bytes = 0;
  int64_t rows = 0;
};

// What was queued on a device while it was captured. The device outlives it.
class CapturedQueue {
 public:
  virtual ~CapturedQueue() = default;
  // Queues all of it again, with the addresses and values of then, however often. Null, or why
  // nothing was queued.
  virtual const char* replay() = 0;
};

// One thread at a time, except for wait(). Copies and kernels take effect in the order in which
// they were queued; host memory that they use must stay valid until they have.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  // Tells it from the host's other devices; "" for the host itself.
  virtual std::string address() const { return ""; }
  // What its kernels' bits depend on beside their sources: the chip, versions of libraries. "" for
  // the host.
  virtual std::string kind() const { return ""; }
  virtual int64_t total_bytes() const = 0;  // 0: unknown.
  virtual int64_t free_bytes() const = 0;
  // Its memory is the host's: kernels read operands there, and nothing has to be copied for them.
  virtual bool is_host() const { return false; }

  // The device's memory, cleared, aligned to kDeviceAlign; null where there is no room. release()
  // does not wait for queued work: call synchronize() first. `bytes` as when it was allocated.
  virtual std::byte* allocate(int64_t bytes) = 0;
  virtual void release(std::byte* memory, int64_t bytes) = 0;
  // Host memory that copies are fastest from and to; null where there is none.
  virtual std::byte* allocate_staging(int64_t bytes) = 0;
  virtual void release_staging(std::byte* memory, int64_t bytes) = 0;

  virtual void copy_in(std::byte* to, const void* from, int64_t bytes) = 0;
  virtual void copy_out(void* to, const std::byte* from, int64_t bytes) = 0;
  virtual void copy_rows(const RowCopy& copy) = 0;
  // Several that do not overlap, in any order, all within the device's memory.
  virtual void copy_each(std::span<const RowCopy> copies) {
    for (const RowCopy& copy : copies) copy_rows(copy);
  }
  virtual void clear(std::byte* memory, int64_t bytes) = 0;  // To zeros.

  // What is queued until end_capture() is kept there and not done. Meanwhile nobody allocates,
  // releases, marks or waits. Null, or why it cannot be: nothing has begun.
  virtual const char* begin_capture() { return "no queue that can be captured"; }
  // Null where something that was queued could not be captured, and `problem` says in one line why.
  virtual std::unique_ptr<CapturedQueue> end_capture(std::string* problem) {
    *problem = "nothing was captured";
    return nullptr;
  }

  // How its kernels reach memory of other devices of the host; null: they cannot.
  virtual PeerAccess* peer_access() { return nullptr; }

  // What kernels get as KernelArgs::queue.
  virtual void* queue() const = 0;
  // Without waiting: whether all that was queued has ended, well or not.
  virtual bool done() = 0;
  // Waits for all that was queued. Null, or the first thing that went wrong since the device was
  // opened: the contents of memory are then undefined, and the device cannot be used any more.
  virtual const char* synchronize() = 0;
  // A place in the queue, after all that was queued. wait() returns once the device has passed it:
  // null, or what went wrong. Other threads may queue meanwhile, and wait for marks of their own.
  virtual int64_t mark() = 0;
  virtual const char* wait(int64_t mark) = 0;
  // To be called first by any thread that launches kernels and did not open the device.
  virtual void use_from_this_thread() = 0;
};

// Memory that is released at the end. Empty where there was no room. The device outlives it.
template <auto kAllocate, auto kRelease>
class OwnedMemory {
 public:
  OwnedMemory() = default;
  OwnedMemory(Device& device, int64_t bytes)
      : device_(&device), data_((device.*kAllocate)(bytes)), bytes_(bytes) {}
  OwnedMemory(OwnedMemory&& other) noexcept { *this = std::move(other); }
  OwnedMemory& operator=(OwnedMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~OwnedMemory() {
    if (data_ != nullptr) (device_->*kRelease)(data_, bytes_);
  }
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};
using DeviceMemory = OwnedMemory<&Device::allocate, &Device::release>;
using StagingMemory = OwnedMemory<&Device::allocate_staging, &Device::release_staging>;

// The processor: memory is the host's and everything is done when a call returns. Memory comes
// straight from the system: nothing of it is real before it is touched, and from 2 MiB on it asks
// for huge pages. Any number of threads.
std::unique_ptr<Device> host_device();

struct CudaDeviceInfo {
  std::string name;
  std::string address;  // On the PCI bus.
  int64_t memory_bytes = 0;
  int major = 0, minor = 0;  // Compute capability.
  int processors = 0;        // Multiprocessors.
};
// The minimum compute capability that kernels are compiled for.
inline constexpr int kMinCudaMajor = 8;

// GPUs that this process may see; `problem` says in one line why there are none.
std::vector<CudaDeviceInfo> cuda_devices(std::string* problem);
// "13.0": the CUDA that the driver knows; "" without a driver, or in a build without CUDA.
std::string cuda_driver_version();
// Null, and why in one line.
std::unique_ptr<Device> open_cuda_device(int index, std::string* problem);

}  // namespace lockstep
