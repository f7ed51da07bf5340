// SPDX-License-Identifier: Apache-2.0
// The unit of work of a format of linear (linear.h): a tile of rows by a chunk of a panel.
#pragma once

#include "worker/kernels/cpu/scratch.h"
#include "worker/kernels/cpu/vector/dot.h"
#include "worker/kernels/four_pages.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr int64_t kPanel = kPackRows;

// Prefetches a line that will be written. The builtin is not used on x86-64: without a flag for
// prefetchw, GCC compiles the builtin to a prefetch for reading, which gains nothing. CPUs that
// lack prefetchw execute it as a nop.
[[gnu::always_inline]] inline void fetch_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw (%0)" ::"r"(line));
#else
  __builtin_prefetch(line, 1);
#endif
}

// How a panel is prefetched while it is read: `lines` says which of the two lines of every 128
// bytes are prefetched, `distance` how many bytes ahead. kInFourPages: as four_pages.h describes.
struct Ahead {
  enum class Lines : uint8_t { kNone, kFirst, kSecond, kBoth };
  static constexpr int64_t kInFourPages = -1;
  Lines lines = Lines::kNone;
  int64_t distance = 0;

  // Called once for every 128 bytes that the kernel reads.
  [[gnu::always_inline]] void prefetch(const std::byte* weights) const {
    if (lines == Lines::kNone) return;
    if (distance == kInFourPages) {
      const std::byte* line = line_in_next_four_pages(weights);
      if (lines != Lines::kSecond) __builtin_prefetch(line, 0, 3);
      if (lines != Lines::kFirst) __builtin_prefetch(line + kPageBytes, 0, 3);
    } else {
      if (lines != Lines::kSecond) __builtin_prefetch(weights + distance, 0, 2);
      if (lines != Lines::kFirst) __builtin_prefetch(weights + distance + 64, 0, 2);
    }
  }
};

// A tile of rows by a chunk of a panel. `sums` [rows][32] has the running sums, which the
// kernel adds to.
struct TileWork {
  const std::byte* x;
  const std::byte* panel;
  int64_t units;
  float* sums;
  Ahead ahead;
  const std::byte* weights;    // The chunk that the format has unpacked, or `panel`.
  const std::byte* panel_end;  // The chunk's last unit may be truncated there.
};

// For formats whose sums need no final rescaling.
struct PlainSums {
  template <typename T>
  static RowValue row_value(const T*, int64_t) {
    return {};
  }
  static void finish(Vec&, Vec&, const std::byte*, const RowValue&) {}
};

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
