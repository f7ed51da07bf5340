// SPDX-License-Identifier: Apache-2.0
// The CPU as a device. Huge pages make reading weights 10 to 15 % faster.
#include "worker/kernels/device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace lockstep {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = int64_t{2} << 20;

// AddressSanitizer does not track mappings: it must know where ours end.
#ifdef __SANITIZE_ADDRESS__
constexpr int64_t kGuard = kPage;
void forbid(const std::byte* memory, int64_t bytes) {
  __asan_poison_memory_region(memory, static_cast<size_t>(bytes));
}
void allow(const std::byte* memory, int64_t bytes) {
  __asan_unpoison_memory_region(memory, static_cast<size_t>(bytes));
}
#else
constexpr int64_t kGuard = 0;
void forbid(const std::byte*, int64_t) {}
void allow(const std::byte*, int64_t) {}
#endif

// Whole pages; from 2 MiB on whole huge pages.
int64_t mapped_bytes(int64_t bytes) {
  const int64_t page = bytes >= kHugePage ? kHugePage : kPage;
  return (std::max(bytes, int64_t{1}) + kGuard + page - 1) / page * page;
}

std::byte* map(int64_t bytes) {
  void* memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

void unmap(std::byte* memory, int64_t bytes) {
  if (bytes > 0) munmap(memory, static_cast<size_t>(bytes));
}

// A mapping aligned to huge pages: maps more, and unmaps both ends.
std::byte* map_huge(int64_t bytes) {
  std::byte* memory = map(bytes + kHugePage);
  if (memory == nullptr) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const auto before = static_cast<int64_t>((kHugePage - address % kHugePage) % kHugePage);
  unmap(memory, before);
  unmap(memory + before + bytes, kHugePage - before);
  // Only advice: without huge pages everything works, slightly slower.
  static_cast<void>(madvise(memory + before, static_cast<size_t>(bytes), MADV_HUGEPAGE));
  return memory + before;
}

class HostDevice final : public Device {
 public:
  std::string name() const override { return "host"; }
  int64_t total_bytes() const override { return 0; }
  int64_t free_bytes() const override { return 0; }
  bool is_host() const override { return true; }

  std::byte* allocate(int64_t bytes) override {
    if (bytes > INT64_MAX - 2 * kHugePage) return nullptr;
    const int64_t mapped = mapped_bytes(bytes);
    std::byte* memory = bytes >= kHugePage ? map_huge(mapped) : map(mapped);
    if (memory != nullptr) forbid(memory + bytes, mapped - bytes);
    return memory;
  }
  void release(std::byte* memory, int64_t bytes) override {
    const int64_t mapped = mapped_bytes(bytes);
    allow(memory + bytes, mapped - bytes);
    unmap(memory, mapped);
  }
  std::byte* allocate_staging(int64_t bytes) override { return allocate(bytes); }
  void release_staging(std::byte* memory, int64_t bytes) override { release(memory, bytes); }

  void copy_in(std::byte* to, const void* from, int64_t bytes) override { copy(to, from, bytes); }
  void copy_out(void* to, const std::byte* from, int64_t bytes) override { copy(to, from, bytes); }
  void copy_rows(const RowCopy& rows) override {
    for (int64_t row = 0; row < rows.rows; ++row) {
      copy(static_cast<std::byte*>(rows.to) + row * rows.to_stride,
           static_cast<const std::byte*>(rows.from) + row * rows.from_stride, rows.row_bytes);
    }
  }
  void clear(std::byte* memory, int64_t bytes) override {
    if (bytes > 0) std::memset(memory, 0, static_cast<size_t>(bytes));
  }
  void* queue() const override { return nullptr; }
  bool done() override { return true; }
  const char* synchronize() override { return nullptr; }
  int64_t mark() override { return 0; }
  const char* wait(int64_t) override { return nullptr; }
  void use_from_this_thread() override {}

 private:
  static void copy(void* to, const void* from, int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
};

}  // namespace

std::unique_ptr<Device> host_device() { return std::make_unique<HostDevice>(); }

}  // namespace lockstep
