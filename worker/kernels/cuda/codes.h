// SPDX-License-Identifier: Apache-2.0
// Codes of 8 bits as bfloat16, two in each word.
#pragma once

#include "worker/kernels/cuda/mma.h"

namespace lockstep::LOCKSTEP_TARGET {

struct alignas(8) Words2 {
  uint32_t at[2];
};

__device__ inline uint32_t twice(uint32_t low) { return low | low << 16; }

// Two codes, in the low bytes of a word's halves, as bfloat16. The bfloat16 128 + x has x in its
// low bits, if x is below 128.
__device__ inline uint32_t widened_codes(uint32_t pair) {
  constexpr uint32_t kOne = 0x3f803f80;
  const uint32_t code = (pair & 0x007f007f) | 0x43004300;
  const uint32_t less = (pair & 0x00800080) | 0xc300c300;  // -128; -256 for negative codes.
  return fma_pairs(code, kOne, less);
}

// Bytes kFirst (0 or 2) and kFirst + 1, in the low bytes of a word's halves.
template <int kFirst>
__device__ uint32_t spread_bytes(uint32_t bytes) {
#ifdef __CUDACC__
  return __byte_perm(bytes, 0, kFirst == 0 ? 0x4140 : 0x4342);
#else
  const uint32_t low = bytes >> 8 * kFirst;
  return (low & 0xff) | (low & 0xff00) << 8;
#endif
}

// Four codes times their scale, each rounded once to bfloat16. `scale` has it in both halves.
__device__ inline Words2 scaled_codes(uint32_t codes, uint32_t scale) {
  constexpr uint32_t kNoSum = 0x80008000;  // -0: x + -0 is x.
  return {fma_pairs(widened_codes(spread_bytes<0>(codes)), scale, kNoSum),
          fma_pairs(widened_codes(spread_bytes<2>(codes)), scale, kNoSum)};
}

}  // namespace lockstep::LOCKSTEP_TARGET
