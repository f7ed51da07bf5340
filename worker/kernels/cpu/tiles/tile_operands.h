// SPDX-License-Identifier: Apache-2.0
// The operands of tile_nest.h: x after it was laid out for tiles, and parts of panels of weights.
// Both consist of units of kNestStep bytes: 64 bytes of each of 32 rows, or of each of 32 columns.
#pragma once

#include "worker/kernels/cpu/tiles/tile_block.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

template <typename Format>
struct NestOperands {
  using Job = LinearJob<Format>;
  static constexpr PanelLayout kLayout = Format::kLayout, kPacked = Job::kPacked;
  static_assert(kLayout.row_bytes == kNestUnit && kLayout.bytes == kNestStep);

  const Job& job;
  int64_t units;  // The units of a row.
  Parts parts;    // The parts of K, in units.

  std::byte* x_of(int64_t block, int64_t part) const {
    return job.packed + (block * units + parts.begin(part)) * kNestStep;
  }
  int64_t units_of(int64_t part) const { return parts.begin(part + 1) - parts.begin(part); }

  // Lays out 32 rows; rows after the last one are zeros.
  void lay_out(int64_t block) const {
    for (int64_t r = 0; r < kNestRows; ++r) {
      const int64_t row = block * kNestRows + r;
      std::byte* to = x_of(block, 0);
      if (row >= job.x.rows) {
        to += r * kNestUnit;
        for (int64_t i = 0; i < units; ++i, to += kNestStep) __builtin_memset(to, 0, kNestUnit);
        continue;
      }
      const auto* from = job.x.template row<typename Format::Activation>(row);
      RowValue value = Format::row_value(from, job.x.cols);
      for (int64_t k = 0; k < job.x.cols; k += kLayout.depth, to += kNestStep) {
        Format::lay_out(from + k, job.x.cols - k, to, r, kNestRows, value);
      }
      job.values[row] = value;
    }
  }

  const std::byte* header_of(int64_t panel) const {
    const auto* weights = static_cast<const std::byte*>(job.weight.data);
    return weights + panel * kPacked.panel_bytes(job.x.cols);
  }
  const std::byte* begin_of(int64_t panel, int64_t part) const {
    return header_of(panel) + kPacked.header_bytes + parts.begin(part) * kNestStep;
  }

  // `copy` has room for a unit.
  PanelPart part_of(int64_t panel, int64_t part, std::byte* copy) const {
    const std::byte *begin = begin_of(panel, part), *end = header_of(panel + 1);
    if (end - begin >= units_of(part) * kNestStep) return {begin, units_of(part), nullptr};
    const int64_t whole = (end - begin) / kNestStep;
    const std::byte* last = begin + whole * kNestStep;
    __builtin_memset(copy, 0, kNestStep);
    __builtin_memcpy(copy, last, static_cast<size_t>(end - last));
    return {begin, whole, copy};
  }
};

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
