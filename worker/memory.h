// SPDX-License-Identifier: Apache-2.0
// Memory of a rank's own, straight from the system: zeroed, on cache lines, and nothing of it is
// real before it is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace lockstep {

inline constexpr int64_t kMemoryAlign = 64;

constexpr int64_t align_memory(int64_t bytes) {
  return (bytes + kMemoryAlign - 1) / kMemoryAlign * kMemoryAlign;
}

// "12.3 GiB", for messages.
std::string memory_text(int64_t bytes);

// Owns a mapping. From 2 MiB on it begins on a 2 MiB border and asks for huge pages.
class Memory {
 public:
  Memory() = default;
  ~Memory() { release(); }
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept;

  // kResourceExhausted names `what`. 0 bytes are no memory, but data() is not null.
  static absl::StatusOr<Memory> allocate(int64_t bytes, const char* what);

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void release();

  void* mapping_ = nullptr;
  int64_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace lockstep
