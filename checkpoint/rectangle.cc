// SPDX-License-Identifier: Apache-2.0
// Loops without branches, which the compiler vectorizes for any x86-64 or ARM machine.
#include "checkpoint/rectangle.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace lockstep {
namespace {

void widen_bf16(const uint16_t* source, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(source[i]) << 16);
  }
}

// A half has a sign, 5 exponent bits (bias 15) and 10 mantissa bits. Adding 112 to the exponent
// gives a float's bits; infinities and NaNs need it twice. A subnormal is its mantissa times 2^-24,
// a normal float, which no mode of the processor flushes to zero.
void widen_f16(const uint16_t* source, int64_t count, float* out) {
  constexpr uint32_t kRebias = 112u << 23;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t half = source[i];
    const uint32_t magnitude = half & 0x7fffu;
    const uint32_t normal =
        (magnitude << 13) + kRebias + (magnitude >= 0x7c00u ? kRebias : uint32_t{0});
    const float small = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f;
    const uint32_t bits = magnitude < 0x400u ? std::bit_cast<uint32_t>(small) : normal;
    out[i] = std::bit_cast<float>(bits | (half & 0x8000u) << 16);
  }
}

}  // namespace

bool widens(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

void widen(DType dtype, const void* source, int64_t count, float* out) {
  LOCKSTEP_CHECK(widens(dtype));
  if (dtype == DType::kBF16) {
    widen_bf16(static_cast<const uint16_t*>(source), count, out);
  } else if (dtype == DType::kF16) {
    widen_f16(static_cast<const uint16_t*>(source), count, out);
  } else {
    std::memcpy(out, source, static_cast<size_t>(count) * sizeof(float));
  }
}

void transpose(const float* source, int64_t rows, int64_t cols, float* out, int64_t out_stride) {
  constexpr int64_t kTile = 16;  // One cache line of floats in each direction.
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(r0 + kTile, rows);
    for (int64_t c = 0; c < cols; ++c) {
      for (int64_t r = r0; r < r1; ++r) out[c * out_stride + r] = source[r * cols + c];
    }
  }
}

}  // namespace lockstep
