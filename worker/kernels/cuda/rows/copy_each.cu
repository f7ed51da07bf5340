// SPDX-License-Identifier: Apache-2.0
// Copies matrices, up to kMax of them per launch: a block copies one row, in the widest units that
// divide all addresses, strides and row sizes.
#include "worker/kernels/cuda/rows/copy_each.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

constexpr int64_t kMax = 32;  // A launch's parameters are at most 4 KB.
constexpr int kThreads = 128;

struct Copies {
  RowCopy each[kMax];
};

struct alignas(16) Sixteen {
  uint64_t low, high;
};

template <typename Unit>
__global__ void copy_each_kernel(Copies copies) {
  const RowCopy& copy = copies.each[blockIdx.y];
  const int64_t row = blockIdx.x, units = copy.row_bytes / static_cast<int64_t>(sizeof(Unit));
  if (row >= copy.rows) return;
  const auto* from = reinterpret_cast<const Unit*>(static_cast<const std::byte*>(copy.from) +
                                                   row * copy.from_stride);
  auto* to = reinterpret_cast<Unit*>(static_cast<std::byte*>(copy.to) + row * copy.to_stride);
  for (int64_t i = threadIdx.x; i < units; i += blockDim.x) to[i] = from[i];
}

// The OR of all addresses, strides and row sizes. A power of two that divides this number divides
// them all.
uint64_t odds_of(const RowCopy& copy) {
  return reinterpret_cast<uintptr_t>(copy.to) | reinterpret_cast<uintptr_t>(copy.from) |
         static_cast<uint64_t>(copy.to_stride | copy.from_stride | copy.row_bytes);
}

const char* copy_some(std::span<const RowCopy> copies, void* queue) {
  Copies some{};
  int64_t rows = 0, count = 0;
  uint64_t odds = 0;
  for (const RowCopy& copy : copies) {
    if (copy.row_bytes == 0) continue;
    some.each[count++] = copy;
    rows = rows > copy.rows ? rows : copy.rows;
    odds |= odds_of(copy);
  }
  const auto kernel = odds % 16 == 0  ? copy_each_kernel<Sixteen>
                      : odds % 8 == 0 ? copy_each_kernel<uint64_t>
                      : odds % 4 == 0 ? copy_each_kernel<uint32_t>
                      : odds % 2 == 0 ? copy_each_kernel<uint16_t>
                                      : copy_each_kernel<uint8_t>;
  return launch(kernel, {rows, count}, kThreads, queue, some);
}

}  // namespace

const char* copy_each(std::span<const RowCopy> copies, void* queue) {
  const char* failure = nullptr;
  while (!copies.empty() && failure == nullptr) {
    const size_t count = copies.size() < kMax ? copies.size() : kMax;
    failure = copy_some(copies.first(count), queue);
    copies = copies.subspan(count);
  }
  return failure;
}

}  // namespace lockstep::LOCKSTEP_TARGET
