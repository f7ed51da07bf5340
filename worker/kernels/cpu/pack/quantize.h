// SPDX-License-Identifier: Apache-2.0
// float32 elements as int8 codes -127 .. 127 that share a scale, rounded to nearest even. Linears
// over codes round their rows in this way, unless round_groups has done it. Exact on every ISA. All
// is inlined: a group of 32 is so little work that function calls, which return through memory,
// took half of the time.
#pragma once

#include "worker/kernels/cpu/pack/panels.h"
#include "worker/kernels/cpu/vector/dot.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

// A code is x * inverse. Not `valid`: an element is not finite, or too large for the kind.
struct Scale {
  float scale = 0;
  float inverse = 0;
  int32_t power = 0;  // If scale = 2^power.
  bool valid = true;
};

// The largest magnitude among x[0, n), as bits: NaN is above infinity, infinity above all numbers.
[[gnu::always_inline]] inline int32_t largest_magnitude(const float* x, int64_t n) {
  Sums largest = Sums::splat(0);
  int64_t i = 0;
  for (; i + Vec::kLanes <= n; i += Vec::kLanes)
    largest = max(largest, magnitude(Vec::load(x + i)));
  if (i < n) largest = max(largest, magnitude(Vec::load(x + i, n - i)));
  return max_lane(largest);
}

float power_of_two(int32_t power) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(127 + power) << 23);
}

[[maybe_unused]] int32_t power_of(float scale) {
  return static_cast<int32_t>(__builtin_bit_cast(uint32_t, scale) >> 23) - 127;
}

// scale = largest / 127. If `largest` is below 2^-100, all elements count as zero, so that the
// inverse is finite.
[[maybe_unused, gnu::always_inline]] inline Scale choose_scale(int32_t largest) {
  constexpr int32_t kInfinite = 0x7f800000, kMin = (127 - 100) << 23;
  if (largest >= kInfinite) return {.valid = false};
  if (largest < kMin) return {};
  const float value = __builtin_bit_cast(float, largest);
  return {.scale = value / 127.0f, .inverse = 127.0f / value};
}

// scale = the smallest power of two with largest / scale <= 127, within the limits of panels.h.
[[maybe_unused, gnu::always_inline]] inline Scale choose_power(int32_t largest) {
  constexpr int32_t kAbove127 = 0x1ffff;  // Adding it carries if the fraction is above 127 / 64.
  const int32_t exact = ((largest + kAbove127) >> 23) - 127 - 6;
  if (largest >= 0x7f800000 || exact > kMaxPower) return {.valid = false};
  const int32_t power = exact < kMinPower ? kMinPower : exact;
  return {.scale = power_of_two(power), .inverse = power_of_two(-power), .power = power};
}

// The sum of a rounded group's codes, eight at a time: unsigned bytes, added in fields of 16 bits.
[[maybe_unused, gnu::always_inline]] inline int32_t sum_of_codes(const int8_t* codes) {
  constexpr uint64_t kSigns = 0x8080808080808080, kEven = 0x00ff00ff00ff00ff;
  uint64_t fields = 0;
#pragma GCC unroll 4
  for (int64_t i = 0; i < kRoundedGroup; i += 8) {
    uint64_t bytes;
    __builtin_memcpy(&bytes, codes + i, sizeof(bytes));
    bytes ^= kSigns;
    fields += (bytes & kEven) + (bytes >> 8 & kEven);
  }
  return static_cast<int32_t>(fields * 0x0001000100010001 >> 48) - 128 * kRoundedGroup;
}

// Writes codes of x[0, n), then zeros up to kCount, a multiple of 16; returns the codes' sum.
template <int64_t kCount>
[[gnu::always_inline]] inline int32_t round_codes(const float* x, int64_t n, const Scale& scale,
                                                  int8_t* codes) {
  const Vec inverse = Vec::splat(scale.inverse);
  Sums total = Sums::splat(0);
  const auto take = [&](int64_t i, const Sums& part) {
    part.store_bytes(codes + i);
    total = total + part;
  };
  if (scale.valid && n >= kCount) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < kCount; i += Vec::kLanes) take(i, to_int(Vec::load(x + i) * inverse));
    return sum(total);
  }
  for (int64_t i = 0; i < kCount; i += Vec::kLanes) {
    const bool there = scale.valid && i < n;
    take(i, there ? to_int(Vec::load(x + i, n - i) * inverse) : Sums::splat(0));
  }
  return sum(total);
}

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
