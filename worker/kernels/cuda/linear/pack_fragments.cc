// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "worker/kernels/cuda/linear/fragments.h"
#include "worker/kernels/pack_rows.h"

namespace lockstep::device {
namespace {

// One unit of weights. The matrix has only `rows` and `cols` of it; the unit's other numbers stay
// zero.
struct Unit {
  uint8_t* bytes;
  int64_t first_row;  // In PackArgs::source.
  int64_t rows;
  int64_t first_col;
  int64_t cols;
  bool paired;
};

// The place of a row of the weight in its stripe.
int64_t row_place(bool paired, int64_t row) { return paired ? row / 2 + row % 2 * 8 : row; }

template <DType kWeight>
void pack_numbers(const PackArgs& args, const Unit& unit) {
  for (int64_t r = 0; r < unit.rows; ++r) {
    const float* source = args.source + (unit.first_row + r) * args.source_stride + unit.first_col;
    for (int64_t k = 0; k < unit.cols; ++k) {
      const FragmentPlace at = fragment_place(row_place(unit.paired, r), k);
      const uint16_t number = rounded_to<kWeight>(source[k]);
      std::memcpy(unit.bytes + at.step * 512 + at.lane * 16 + at.word * 4 + at.half * 2, &number,
                  sizeof(number));
    }
  }
}

// int8: a lane has 16 bytes for each two steps. Each word of these has the four codes of two words
// of A: bytes 0 and 2 are of an even word of A, bytes 1 and 3 of the odd word after it. int4: a
// lane has one word per step, with eight codes: the 4 bits from 4w on and the 4 bits from 16 + 4w
// on are of A's word w.
template <DType kWeight>
void put_code(const Unit& unit, int64_t row, int64_t col, int code) {
  constexpr Quantization kKind = *quantization(kWeight);
  const FragmentPlace at = fragment_place(row_place(unit.paired, row), col);
  if constexpr (kKind.bits == 8) {
    const int word = at.step % 2 * 2 + at.word / 2, byte = at.word % 2 + at.half * 2;
    unit.bytes[at.step / 2 * 512 + at.lane * 16 + word * 4 + byte] = static_cast<uint8_t>(code);
  } else {
    const int bit = 4 * at.word + 16 * at.half;
    uint8_t& to = unit.bytes[at.lane * 16 + at.step * 4 + bit / 8];
    to = static_cast<uint8_t>(to | (code + (kKind.minimum ? 0 : 8)) << bit % 8);
  }
}

template <DType kWeight>
void pack_codes(const PackArgs& args, const Unit& unit) {
  using Bytes = FragmentBytes<kWeight>;
  constexpr Quantization kKind = *quantization(kWeight);
  for (int64_t r = 0; r < kStripeRows; ++r) {
    const int64_t source = (unit.first_row + r) * args.cols + unit.first_col;
    for (int64_t k = 0; k < kUnitDepth; ++k) {
      const bool there = r < unit.rows && k < unit.cols;
      put_code<kWeight>(unit, r, k, there ? args.quantized.codes[source + k] : 0);
    }
  }
  if constexpr (kKind.group > 0) {
    const int64_t groups = group_count(kKind, args.cols), first = unit.first_col / kKind.group;
    for (int64_t r = 0; r < unit.rows; ++r) {
      for (int64_t j = 0; j < 2 && first + j < groups; ++j) {
        const int64_t source = (unit.first_row + r) * groups + first + j;
        uint8_t* to = unit.bytes + Bytes::kCodes + 2 * scale_place(row_place(unit.paired, r), j);
        std::memcpy(to, args.quantized.scales + source, 2);
        if (kKind.minimum) std::memcpy(to + Bytes::kScales, args.quantized.minima + source, 2);
      }
    }
  }
}

template <DType kWeight>
void pack(const PackArgs& args, bool paired) {
  using Bytes = FragmentBytes<kWeight>;
  static_assert(kPackRows % kStripeRows == 0);
  for (int64_t row = args.row_begin; row < args.row_end; row += kStripeRows) {
    const int64_t rows = std::min(kStripeRows, args.row_end - row);
    const int64_t bytes = Bytes::stripe(args.cols);
    uint8_t* stripe = static_cast<uint8_t*>(args.packed) + row / kStripeRows * bytes;
    std::fill_n(stripe, bytes, uint8_t{0});
    if constexpr (Bytes::kHead > 0) {
      for (int64_t r = 0; args.cols > 0 && r < rows; ++r) {
        std::memcpy(stripe + 2 * row_place(paired, r),
                    args.quantized.scales + (row - args.row_begin) + r, 2);
      }
    }
    for (int64_t col = 0; col < args.cols; col += kUnitDepth) {
      const Unit unit{.bytes = stripe + Bytes::kHead + col / kUnitDepth * Bytes::kUnit,
                      .first_row = row - args.row_begin,
                      .rows = rows,
                      .first_col = col,
                      .cols = std::min(kUnitDepth, args.cols - col),
                      .paired = paired};
      if constexpr (quantization(kWeight).has_value()) {
        pack_codes<kWeight>(args, unit);
      } else {
        pack_numbers<kWeight>(args, unit);
      }
    }
  }
}

}  // namespace

template <DType kWeight>
int64_t fragment_bytes(int64_t rows, int64_t cols) {
  return stripes_of(rows) * FragmentBytes<kWeight>::stripe(cols);
}

template <DType kWeight>
void pack_fragments(const PackArgs& args) {
  pack<kWeight>(args, false);
}

template <DType kWeight>
void pack_paired_fragments(const PackArgs& args) {
  pack<kWeight>(args, true);
}

int64_t mma_scratch_bytes(const KernelArgs& largest, int) {
  const TensorView& x = largest.in[0];
  const bool whole = x.dtype != DType::kF32 && x.cols % 8 == 0 && x.stride == x.cols;
  return whole ? 0 : x.rows * copied_stride(x.cols) * 2;
}

int64_t wgmma_scratch_bytes(const KernelArgs& largest, int) {
  const TensorView& x = largest.in[0];
  return x.rows * units_of(x.cols) * kUnitDepth * 2;
}

#define LOCKSTEP_PACK_FRAGMENTS(KIND)                                       \
  template int64_t fragment_bytes<DType::KIND>(int64_t rows, int64_t cols); \
  template void pack_fragments<DType::KIND>(const PackArgs& args);          \
  template void pack_paired_fragments<DType::KIND>(const PackArgs& args);

LOCKSTEP_PACK_FRAGMENTS(kF16)
LOCKSTEP_PACK_FRAGMENTS(kBF16)
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_PACK_FRAGMENTS)
#undef LOCKSTEP_PACK_FRAGMENTS

}  // namespace lockstep::device
