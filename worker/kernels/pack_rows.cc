// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/pack_rows.h"

#include <cstring>

#include "worker/kernels/quantized_rows.h"

namespace lockstep {
namespace {

template <DType kWeight>
void pack_floats(const PackArgs& args) {
  using T = decltype(rounded_to<kWeight>(0));
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const float* source = args.source + (r - args.row_begin) * args.source_stride;
    T* to = static_cast<T*>(args.packed) + r * args.cols;
    for (int64_t k = 0; k < args.cols; ++k) to[k] = rounded_to<kWeight>(source[k]);
  }
}

template <DType kWeight>
void pack_codes(const PackArgs& args) {
  constexpr Quantization kKind = *quantization(kWeight);
  const int64_t groups = group_count(kKind, args.cols);
  const int64_t bytes = quantized_row_bytes(kKind, args.cols);
  const auto numbers = static_cast<size_t>(groups) * sizeof(uint16_t);
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const int64_t source = r - args.row_begin;
    uint8_t* to = static_cast<uint8_t*>(args.packed) + r * bytes;
    std::memset(to, 0, static_cast<size_t>(bytes));
    std::memcpy(to, args.quantized.scales + source * groups, numbers);
    if (kKind.minimum) std::memcpy(to + numbers, args.quantized.minima + source * groups, numbers);
    const int8_t* from = args.quantized.codes + source * args.cols;
    uint8_t* codes = to + row_codes_begin(kKind, args.cols);
    for (int64_t k = 0; k < args.cols; ++k) {
      if constexpr (kKind.bits == 8) {
        codes[k] = static_cast<uint8_t>(from[k]);
      } else {
        const int nibble = from[k] + (kKind.minimum ? 0 : 8);
        codes[k / 2] = static_cast<uint8_t>(codes[k / 2] | nibble << k % 2 * 4);
      }
    }
  }
}

}  // namespace

template <DType kWeight>
int64_t plain_row_bytes(int64_t rows, int64_t cols) {
  if constexpr (constexpr auto kKind = quantization(kWeight); kKind.has_value()) {
    return rows * quantized_row_bytes(*kKind, cols);
  } else {
    return rows * cols * dtype_bytes(kWeight);
  }
}

template <DType kWeight>
void pack_plain_rows(const PackArgs& args) {
  if constexpr (quantization(kWeight).has_value()) {
    pack_codes<kWeight>(args);
  } else {
    pack_floats<kWeight>(args);
  }
}

#define LOCKSTEP_PACK_ROWS(KIND)                                             \
  template int64_t plain_row_bytes<DType::KIND>(int64_t rows, int64_t cols); \
  template void pack_plain_rows<DType::KIND>(const PackArgs& args);

LOCKSTEP_PACK_ROWS(kF32)
LOCKSTEP_PACK_ROWS(kF16)
LOCKSTEP_PACK_ROWS(kBF16)
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_PACK_ROWS)
#undef LOCKSTEP_PACK_ROWS

}  // namespace lockstep
