// SPDX-License-Identifier: Apache-2.0
// Common code for formats of linear that use all sixteen ymm registers. A panel is processed in
// quarters, each one register, or in halves, for as many rows at a time as there are registers for
// sums. Each quarter or half reads all of x, so x is laid out ready for use, in more bytes than on
// other ISAs (widened_layout of panels.h). The bits are those of linear.cc and linear_quantized.cc:
// the same products, added in the same order, or integers, which add up exactly in any order.
#pragma once

#include "worker/kernels/cpu/linear/linear.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr int64_t kQuarter = 8;  // In columns.
constexpr int kQuarters = 4;

[[gnu::always_inline]] inline __m256i load_bits(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
[[gnu::always_inline]] inline __m256i splat_bits(const std::byte* p) {
  int32_t bits;
  __builtin_memcpy(&bits, p, sizeof(bits));
  return _mm256_set1_epi32(bits);
}
[[gnu::always_inline]] inline __m256 splat_float(const std::byte* p) {
  return _mm256_broadcast_ss(reinterpret_cast<const float*>(p));
}
// The earlier and the later element of each pair (panels.h) in float32.
[[gnu::always_inline]] inline __m256 earlier_of(__m256i pairs) {
  return _mm256_castsi256_ps(
      _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}
[[gnu::always_inline]] inline __m256 later_of(__m256i pairs) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
