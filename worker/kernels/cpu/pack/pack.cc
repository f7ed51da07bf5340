// SPDX-License-Identifier: Apache-2.0
// Packs weights that are floats.
#include "worker/kernels/cpu/pack/pack.h"

#include <algorithm>

#include "worker/kernels/cpu/pack/panels.h"
#include "worker/kernels/pack_rows.h"

namespace lockstep::cpu {
namespace {

constexpr int64_t kDepthEach = 16;  // Columns packed at a time: one cache line of each row.

// The index within a panel of element k of a column, for units of 1 or 2 elements.
template <DType kWeight>
int64_t place(int64_t k, int64_t column) {
  constexpr int64_t kDepth = panel_layout(kWeight).depth;
  return (k / kDepth * kPackRows + column) * kDepth + (kDepth - 1 - k % kDepth);
}

}  // namespace

template <DType kWeight>
int64_t panel_bytes(int64_t rows, int64_t cols) {
  return (rows + kPackRows - 1) / kPackRows * panel_layout(kWeight).panel_bytes(cols);
}

template <DType kWeight>
void pack_panels(const PackArgs& args) {
  using T = decltype(rounded_to<kWeight>(0));
  constexpr PanelLayout kLayout = panel_layout(kWeight);
  const int64_t padded = kLayout.units(args.cols) * kLayout.depth;
  for (int64_t begin = args.row_begin; begin < args.row_end; begin += kPackRows) {
    const float* source = args.source + (begin - args.row_begin) * args.source_stride;
    T* panel = static_cast<T*>(args.packed) + begin * padded;
    for (int64_t depth = 0; depth < padded; depth += kDepthEach) {
      const int64_t end = std::min(padded, depth + kDepthEach);
      for (int64_t r = 0; r < kPackRows; ++r) {
        const float* row = source + r * args.source_stride;
        for (int64_t k = depth; k < end; ++k) {
          const bool exists = begin + r < args.row_end && k < args.cols;
          panel[place<kWeight>(k, r)] = exists ? rounded_to<kWeight>(row[k]) : T{0};
        }
      }
    }
  }
}

#define LOCKSTEP_PACK(kWeight)                                       \
  template int64_t panel_bytes<kWeight>(int64_t rows, int64_t cols); \
  template void pack_panels<kWeight>(const PackArgs& args);

LOCKSTEP_PACK(DType::kF32)
LOCKSTEP_PACK(DType::kF16)
LOCKSTEP_PACK(DType::kBF16)

}  // namespace lockstep::cpu
