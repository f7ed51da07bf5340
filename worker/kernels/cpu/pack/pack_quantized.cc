// SPDX-License-Identifier: Apache-2.0
// Packs weights that are already codes and scales into panels.
#include <algorithm>
#include <cstring>

#include "worker/kernels/cpu/pack/pack.h"
#include "worker/kernels/cpu/pack/panels.h"

namespace lockstep::cpu {
namespace {

constexpr uint16_t kOne = 0x3f80;  // bfloat16.

// Limits scales of int4 weights to the range of panels.h; returns 0 if all of the group counts as
// 0.
uint16_t usable_scale(const Quantization& kind, uint16_t scale) {
  if (kind.bits == 8) return scale;
  const int exponent = (scale >> 7 & 0xff) - 127;
  if (exponent < kMinScale) return 0;
  if (exponent < kMaxScale) return scale;
  return static_cast<uint16_t>((scale & 0x8000) | (127 + kMaxScale - 1) << 7 | 0x7f);
}

// One column of a panel: a row of the matrix, or (null) only padding.
struct Column {
  const int8_t* codes = nullptr;
  const uint16_t* scales = nullptr;
  const uint16_t* minima = nullptr;
};

// The stored code of element k or, if `zero`, of the number 0.
uint8_t stored_code(const Column& column, int64_t k, int64_t cols, bool zero, int zero_code) {
  const int code = zero || k >= cols ? 0 : column.codes[k];
  return static_cast<uint8_t>(code + zero_code);
}

template <DType kWeight>
void pack_column(const Column& column, int64_t n, int64_t cols, uint8_t* panel) {
  constexpr Quantization kKind = *quantization(kWeight);
  constexpr PanelLayout kLayout = panel_layout(kWeight);
  constexpr bool kWhole = kKind.group == 0;
  constexpr int kZero = kKind.bits == 8 ? 128 : kKind.minimum ? 0 : 8;
  constexpr int64_t kNumbers = kWhole ? 0 : kPanelScales * (kKind.minimum ? 2 : 1);
  const auto put = [&](uint8_t* numbers, uint16_t value) {
    std::memcpy(numbers + 2 * scale_index(n), &value, sizeof(value));
  };
  for (int64_t unit = 0; unit < kLayout.units(cols); ++unit) {
    uint8_t* to = panel + kLayout.header_bytes + unit * kLayout.bytes;
    const int64_t group = kWhole ? 0 : unit;
    const bool exists = column.codes != nullptr;
    const uint16_t scale = exists ? usable_scale(kKind, column.scales[group]) : 0;
    put(kWhole ? panel : to, scale == 0 ? kOne : scale);
    if (kKind.minimum) put(to + kPanelScales, exists ? column.minima[group] : 0);
    const auto code = [&](int64_t k) {
      return stored_code(column, unit * kLayout.depth + k, cols, scale == 0, kZero);
    };
    uint8_t* codes = to + kNumbers + 4 * n;
    if constexpr (kKind.bits == 8) {
      for (int64_t k = 0; k < kLayout.depth; ++k) codes[k / 4 * 4 * kPackRows + k % 4] = code(k);
    } else {
      constexpr int64_t kHalf = kLayout.depth / 2;
      for (int64_t k = 0; k < kHalf; ++k) {
        codes[k / 4 * 4 * kPackRows + k % 4] = static_cast<uint8_t>(code(k) | code(k + kHalf) << 4);
      }
    }
  }
}

// Row r of the caller's block.
Column column_of(const Quantization& kind, const PackArgs& args, int64_t r) {
  const int64_t groups = group_count(kind, args.cols);
  const QuantizedRows& rows = args.quantized;
  return {rows.codes + r * args.cols, rows.scales + r * groups,
          rows.minima == nullptr ? nullptr : rows.minima + r * groups};
}

}  // namespace

template <DType kWeight>
int64_t panel_bytes(int64_t rows, int64_t cols) {
  return (rows + kPackRows - 1) / kPackRows * panel_layout(kWeight).panel_bytes(cols);
}

template <DType kWeight>
void pack_panels(const PackArgs& args) {
  constexpr Quantization kKind = *quantization(kWeight);
  const int64_t bytes = panel_layout(kWeight).panel_bytes(args.cols);
  for (int64_t begin = args.row_begin; begin < args.row_end; begin += kPackRows) {
    auto* panel = static_cast<uint8_t*>(args.packed) + begin / kPackRows * bytes;
    for (int64_t n = 0; n < kPackRows; ++n) {
      const bool exists = begin + n < args.row_end && args.cols > 0;
      const Column column = exists ? column_of(kKind, args, begin + n - args.row_begin) : Column{};
      pack_column<kWeight>(column, n, args.cols, panel);
    }
  }
}

#define LOCKSTEP_PACK(KIND)                                              \
  template int64_t panel_bytes<DType::KIND>(int64_t rows, int64_t cols); \
  template void pack_panels<DType::KIND>(const PackArgs& args);

LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_PACK)
#undef LOCKSTEP_PACK

}  // namespace lockstep::cpu
