// SPDX-License-Identifier: Apache-2.0
// A device runs kernels, whose operands are in its memory: the CPU or a GPU. Weights, states,
// values and scratch are allocated on it. A step's inputs are copied in, its answers out. No absl,
// so kernels and their tests build on a bare machine; errors are one line of text.
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

// Copies rows of bytes with a stride on each side; each side is device memory or staging memory.
struct RowCopy {
  void* to = nullptr;
  int64_t to_stride = 0;
  const void* from = nullptr;
  int64_t from_stride = 0;
  int64_t row_bytes = 0;
  int64_t rows = 0;
};

// The work that was queued on a device while it was captured. The device outlives it.
class CapturedQueue {
 public:
  virtual ~CapturedQueue() = default;
  // Queues all of it again, with the captured addresses and values, any number of times. Null, or
  // why nothing was queued.
  virtual const char* replay() = 0;
};

// For one thread at a time, except wait(). Copies and kernels take effect in the order in which
// they were queued; host memory that they use must stay valid until then.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  // Distinguishes this device from the host's other devices; "" for the host itself.
  virtual std::string address() const { return ""; }
  // The chip and the versions of libraries: kernels' bits depend on these and on the kernels'
  // sources only. "" for the host.
  virtual std::string kind() const { return ""; }
  virtual int64_t total_bytes() const = 0;  // 0: unknown.
  virtual int64_t free_bytes() const = 0;
  // True if the device's memory is the host's, so that nothing needs to be copied.
  virtual bool is_host() const { return false; }

  // The device's memory, cleared, aligned to kDeviceAlign; null if there is no room. release() does
  // not wait for queued work: call synchronize() first. `bytes` must equal the allocation's.
  virtual std::byte* allocate(int64_t bytes) = 0;
  virtual void release(std::byte* memory, int64_t bytes) = 0;
  // Host memory that is the fastest for copies in both directions; null if there is no room.
  virtual std::byte* allocate_staging(int64_t bytes) = 0;
  virtual void release_staging(std::byte* memory, int64_t bytes) = 0;

  virtual void copy_in(std::byte* to, const void* from, int64_t bytes) = 0;
  virtual void copy_out(void* to, const std::byte* from, int64_t bytes) = 0;
  virtual void copy_rows(const RowCopy& copy) = 0;
  // Several copies that do not overlap, in any order, all within the device's memory.
  virtual void copy_each(std::span<const RowCopy> copies) {
    for (const RowCopy& copy : copies) copy_rows(copy);
  }
  virtual void clear(std::byte* memory, int64_t bytes) = 0;  // To zeros.

  // Until end_capture(), queued work is recorded and not done. Meanwhile no thread may allocate,
  // release, mark or wait. Null, or why capturing did not begin.
  virtual const char* begin_capture() { return "no queue that can be captured"; }
  // Null if some queued work could not be captured; `problem` has the reason in one line.
  virtual std::unique_ptr<CapturedQueue> end_capture(std::string* problem) {
    *problem = "nothing was captured";
    return nullptr;
  }

  // How kernels of this device reach memory of the host's other devices; null: they cannot.
  virtual PeerAccess* peer_access() { return nullptr; }

  // The value of KernelArgs::queue.
  virtual void* queue() const = 0;
  // Whether all queued work has ended, with or without success. Does not wait.
  virtual bool done() = 0;
  // Waits for all queued work. Null, or the first error since the device was opened: the contents
  // of memory are then undefined, and the device cannot be used any more.
  virtual const char* synchronize() = 0;
  // mark() sets a mark after all queued work. wait() returns when the device has passed the mark:
  // null, or the error. Other threads may queue meanwhile, and wait for marks of their own.
  virtual int64_t mark() = 0;
  virtual const char* wait(int64_t mark) = 0;
  // A thread that launches kernels and did not open the device must call this first.
  virtual void use_from_this_thread() = 0;
};

// Memory that is released at the end. Empty if there was no room. The device outlives it.
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

// The CPU: memory is the host's and all work is done when a call returns. Memory comes straight
// from the system, which provides a page at its first use; from 2 MiB on it asks for huge pages.
// Any number of threads may use it.
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

// The GPUs that this process may see; if there are none, `problem` has the reason in one line.
std::vector<CudaDeviceInfo> cuda_devices(std::string* problem);
// "13.0": the CUDA version of the driver; "" without a driver, or in a build without CUDA.
std::string cuda_driver_version();
// Null on an error; `problem` has the reason in one line.
std::unique_ptr<Device> open_cuda_device(int index, std::string* problem);

}  // namespace lockstep
