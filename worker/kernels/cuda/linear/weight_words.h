// SPDX-License-Identifier: Apache-2.0
// A lane's part of a unit of weights (fragments.h), and its conversion to A in registers: a code
// times its scale (plus its minimum), rounded once to bfloat16.
#pragma once

#include "worker/kernels/cuda/codes.h"
#include "worker/kernels/cuda/linear/fragments.h"

namespace lockstep::LOCKSTEP_TARGET {

// Loads 16 bytes of global memory that are not read again.
__device__ inline Words4 load_once(const std::byte* from) {
#ifdef __CUDACC__
  Words4 words;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.at[0]), "=r"(words.at[1]), "=r"(words.at[2]), "=r"(words.at[3])
               : "l"(__cvta_generic_to_global(from)));
  return words;
#else
  return *reinterpret_cast<const Words4*>(from);
#endif
}

// The words 0 to 3 of A at a step, for one kind of weight; the loaded data is kept in registers.
template <DType kWeight>
struct WeightWords {
  static constexpr Quantization kKind = device::FragmentBytes<kWeight>::kKind;
  static constexpr int kLoads = static_cast<int>(device::FragmentBytes<kWeight>::kCodes / 512);
  Words4 codes[kLoads];
  Words2 scales;  // One word each for rows g and g + 8; the unit's first group is in the low half.
  Words2 minima;

  // kOnce: from global memory, without keeping it in the cache.
  template <bool kOnce>
  __device__ void load(const std::byte* unit, int lane) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const std::byte* from = unit + i * 512 + lane * 16;
      codes[i] = kOnce ? load_once(from) : *reinterpret_cast<const Words4*>(from);
    }
    load_scales(unit, lane);
  }

  // Loads only what the first two steps need, or the second two.
  template <int kHalf>
  __device__ void load_half(const std::byte* unit, int lane) {
    if constexpr (kKind.bits == 4) {
      const auto words = *reinterpret_cast<const Words2*>(unit + lane * 16 + kHalf * 8);
      codes[0].at[2 * kHalf] = words.at[0];
      codes[0].at[2 * kHalf + 1] = words.at[1];
    } else {
#pragma unroll
      for (int i = kHalf * kLoads / 2; i < (kHalf + 1) * kLoads / 2; ++i) {
        codes[i] = *reinterpret_cast<const Words4*>(unit + i * 512 + lane * 16);
      }
    }
    load_scales(unit, lane);
  }

  // Loads a row's scales for all its columns, which are stored before its stripe.
  __device__ void load_head(const std::byte* stripe, int lane) {
    if constexpr (device::FragmentBytes<kWeight>::kHead > 0) {
      const auto* of_rows = reinterpret_cast<const uint16_t*>(stripe);
      scales = {twice(of_rows[lane / 4]), twice(of_rows[lane / 4 + 8])};
    }
  }

  __device__ void words_of(int step, uint32_t (&a)[4]) const {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if constexpr (kKind.bits == 16) {
        a[w] = codes[step].at[w];
      } else {
        a[w] = scaled(step, w);
      }
    }
  }

 private:
  __device__ void load_scales(const std::byte* unit, int lane) {
    using Bytes = device::FragmentBytes<kWeight>;
    const std::byte* numbers = unit + Bytes::kCodes + lane / 4 * 8;
    if constexpr (kKind.group > 0) scales = *reinterpret_cast<const Words2*>(numbers);
    if constexpr (kKind.minimum) {
      minima = *reinterpret_cast<const Words2*>(numbers + Bytes::kScales);
    }
  }
  __device__ uint32_t scaled(int step, int w) const {
    constexpr uint32_t kOne = 0x3f803f80, kNoSum = 0x80008000;  // -0: x + -0 is x.
    uint32_t code;
    if constexpr (kKind.bits == 4) {
      // The bfloat16 128 + x has x in its low bits.
      code = (codes[0].at[step] >> 4 * w & 0x000f000f) | 0x43004300;
      code = fma_pairs(code, kOne, kKind.minimum ? 0xc300c300 : 0xc308c308);  // -128, -136.
    } else {
      code = widened_codes(codes[step / 2].at[step % 2 * 2 + w / 2] >> 8 * (w % 2));
    }
    const uint32_t scale = of_group(scales.at[w % 2], step / 2);
    return fma_pairs(code, scale, kKind.minimum ? of_group(minima.at[w % 2], step / 2) : kNoSum);
  }
  __device__ static uint32_t of_group(uint32_t pair, int group) {
    if constexpr (kKind.group == 0) return pair;
    return group == 0 ? twice(pair & 0xffff) : (pair & 0xffff0000) | pair >> 16;
  }
};

}  // namespace lockstep::LOCKSTEP_TARGET
