// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/device.h"

#include <cstring>
#include <new>

namespace lockstep {
namespace {

class HostDevice final : public Device {
 public:
  std::string name() const override { return "host"; }
  int64_t total_bytes() const override { return 0; }
  int64_t free_bytes() const override { return 0; }
  std::byte* allocate(int64_t bytes) override {
    return static_cast<std::byte*>(
        ::operator new(static_cast<size_t>(bytes), std::align_val_t(kDeviceAlign), std::nothrow));
  }
  void release(std::byte* memory) override {
    ::operator delete(memory, std::align_val_t(kDeviceAlign));
  }
  std::byte* allocate_staging(int64_t bytes) override { return allocate(bytes); }
  void release_staging(std::byte* memory) override { release(memory); }
  void copy_in(std::byte* to, const void* from, int64_t bytes) override { copy(to, from, bytes); }
  void copy_out(void* to, const std::byte* from, int64_t bytes) override { copy(to, from, bytes); }
  void clear(std::byte* memory, int64_t bytes) override {
    if (bytes > 0) std::memset(memory, 0, static_cast<size_t>(bytes));
  }
  void* queue() const override { return nullptr; }
  const char* synchronize() override { return nullptr; }
  void use_from_this_thread() override {}

 private:
  static void copy(void* to, const void* from, int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
};

}  // namespace

std::unique_ptr<Device> host_device() { return std::make_unique<HostDevice>(); }

}  // namespace lockstep
