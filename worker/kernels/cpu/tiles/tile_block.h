// SPDX-License-Identifier: Apache-2.0
// The innermost loop of tile_nest.h: 32 rows by a panel, over a part of K. Between products it
// prefetches lines and finishes rows of other results.
#pragma once

#include "worker/kernels/cpu/linear/linear.h"
#include "worker/kernels/cpu/tiles/tile_step.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

// Prefetches a panel that is used later, four lines at a time. If a core's own prefetching is too
// short (four_pages.h), the four lines are in four pages; else they are neighbours.
class Lines {
 public:
  Lines(const std::byte* begin, int64_t bytes)
      : next_(begin),
        in_pages_(reads_by_four_pages() ? bytes / kFourPages * (kPageBytes / 64) : 0) {
    neighbours_ = bytes / kFour - in_pages_;
  }

  [[gnu::always_inline]] void prefetch_four() {
    if (in_pages_ > 0) {
      fetch(kPageBytes);
      --in_pages_;
      next_ += in_pages_ % (kPageBytes / 64) == 0 ? kFourPages - kPageBytes + 64 : 64;
    } else if (neighbours_ > 0) {
      fetch(64);
      --neighbours_;
      next_ += kFour;
    }
  }

 private:
  static constexpr int64_t kFour = 4 * 64;

  [[gnu::always_inline]] void fetch(int64_t apart) const {
#pragma GCC unroll 4
    for (int64_t i = 0; i < 4; ++i) __builtin_prefetch(next_ + i * apart, 0, 2);
  }

  const std::byte* next_;
  uint64_t in_pages_, neighbours_;  // How many times four lines are left.
};

// The units of a part of a panel. A panel's last unit may be truncated, and is then a copy.
struct PanelPart {
  const std::byte* units;
  int64_t whole;
  const std::byte* last_unit;  // Or null.
};

// Sums of up to 32 rows by a panel, of which rows [row, end) are not stored yet.
struct Results {
  const float* sums = nullptr;
  const std::byte* header = nullptr;
  int64_t col = 0, row = 0, end = 0;

  // Stores one row. kStreams: past the caches.
  template <bool kStreams, typename Format>
  [[gnu::always_inline]] void finish_row(const LinearJob<Format>& job) {
    if (row == end) return;
    Vec left = Vec::load(sums), right = Vec::load(sums + Vec::kLanes);
    if constexpr (Format::kProduct == Product::kCodes) {
      const Sums start = Sums::splat(job.values[row].start);
      left = __builtin_bit_cast(Vec, as_sums(left) + start);
      right = __builtin_bit_cast(Vec, as_sums(right) + start);
    }
    job.complete(row, col, header, left, right);
    float* to = job.out.template row<float>(row) + col;
    if (kStreams && col + kPanel <= job.out.cols) {
      stream(left, to);
      stream(right, to + Vec::kLanes);
    } else {
      job.put(to, col, left, right);
    }
    sums += kPanel;
    ++row;
  }

  template <bool kStreams, typename Format>
  void finish_all(const LinearJob<Format>& job) {
    while (row < end) finish_row<kStreams>(job);
  }
};

// The work between products.
struct Between {
  static constexpr int64_t kFourLines = 64;
  Lines lines;
  int64_t rate;  // The lines prefetched for each unit of K; kFourLines means four.
  const std::byte* next_sums = nullptr;  // The place of the sums after these, or null.
  Results results = {};
};

// Adds the products of x [units][32][64] by a part of a panel to the sums.
template <TileOrder kOrder, bool kBoth, bool kStreams, typename Format>
[[gnu::noinline]] void multiply_block(const LinearJob<Format>& job, const std::byte* x,
                                      const PanelPart& part, Between& between) {
  const std::byte *weights = part.units, *next_sums = between.next_sums;
  Lines lines = between.lines;
  Results results = between.results;
  const int64_t rate = between.rate;
  int64_t due = 0;
  for (int64_t left = part.whole; left > 0; --left, x += kNestStep, weights += kNestStep) {
    multiply_step<Format::kProduct, kOrder, kBoth>(x, weights);
    for (due += rate; due >= Between::kFourLines; due -= Between::kFourLines) {
      lines.prefetch_four();
    }
    if (next_sums != nullptr) {
      fetch_to_write(next_sums);
      fetch_to_write(next_sums + 64);
      next_sums += 128;
    }
    results.finish_row<kStreams>(job);
  }
  between.lines = lines;
  if (part.last_unit != nullptr) {
    multiply_step<Format::kProduct, kOrder, kBoth>(x, part.last_unit);
  }
  results.finish_all<kStreams>(job);
}

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
