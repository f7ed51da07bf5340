// SPDX-License-Identifier: Apache-2.0
// Anonymous mappings. Huge pages are worth 10 to 15 % of the speed at which weights are read.
#include "worker/memory.h"

#include <sys/mman.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/status.h"

namespace lockstep {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

// AddressSanitizer knows nothing of mappings: it is told where ours end.
#ifdef __SANITIZE_ADDRESS__
constexpr int64_t kGuard = 4096;
void forbid(const std::byte* begin, const std::byte* end) {
  __asan_poison_memory_region(begin, static_cast<size_t>(end - begin));
}
void allow(const std::byte* begin, const std::byte* end) {
  __asan_unpoison_memory_region(begin, static_cast<size_t>(end - begin));
}
#else
constexpr int64_t kGuard = 0;
void forbid(const std::byte*, const std::byte*) {}
void allow(const std::byte*, const std::byte*) {}
#endif

}  // namespace

std::string memory_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double size = static_cast<double>(bytes);
  int unit = 0;
  for (; unit < 4 && size >= 1024; ++unit) size /= 1024;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", size, kUnits[unit]);
}

Memory& Memory::operator=(Memory&& other) noexcept {
  if (this == &other) return *this;
  release();
  mapping_ = std::exchange(other.mapping_, nullptr);
  mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Memory::release() {
  if (mapping_ == nullptr) return;
  allow(data_ + bytes_, static_cast<std::byte*>(mapping_) + mapped_bytes_);
  munmap(mapping_, static_cast<size_t>(mapped_bytes_));
  mapping_ = nullptr;
}

absl::StatusOr<Memory> Memory::allocate(int64_t bytes, const char* what) {
  const bool huge = bytes >= kHugePage;
  Memory memory;
  memory.bytes_ = bytes;
  memory.mapped_bytes_ = std::max(bytes, kMemoryAlign) + (huge ? kHugePage : 0) + kGuard;
  void* mapping = mmap(nullptr, static_cast<size_t>(memory.mapped_bytes_), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    return resource_exhausted("the system refused {} for {} ({}); raise the limit on memory",
                              memory_text(bytes), what, std::strerror(errno));
  }
  memory.mapping_ = mapping;
  memory.data_ = static_cast<std::byte*>(mapping);
  if (huge) {
    const auto address = reinterpret_cast<uintptr_t>(mapping);
    memory.data_ += (kHugePage - address % kHugePage) % kHugePage;
    // Advice only: without huge pages all is as right, and a little slower.
    (void)madvise(memory.data_, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  }
  forbid(memory.data_ + bytes, static_cast<std::byte*>(mapping) + memory.mapped_bytes_);
  return memory;
}

}  // namespace lockstep
