// SPDX-License-Identifier: Apache-2.0
// Tiles of AMX, in assembly: GCC 12's intrinsics take no tile number from a template's parameter
// and do not declare that a load reads memory. The compiler itself uses no tile register, so it
// neither saves nor moves one.
#pragma once

#define LOCKSTEP_FEW_ROWS avx512_bf16

namespace lockstep::LOCKSTEP_ISA {
namespace {

[[gnu::always_inline]] inline void tile_configure(const TileConfig& config) {
  asm volatile("ldtilecfg %0" : : "m"(config));
}
[[gnu::always_inline]] inline void tile_release() { asm volatile("tilerelease"); }

template <int kTile>
[[gnu::always_inline]] inline void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
template <int kTile>
[[gnu::always_inline]] inline void tile_load(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
[[gnu::always_inline]] inline void tile_load_once(const void* from, int64_t stride) {
  asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
[[gnu::always_inline]] inline void tile_store(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
}
template <Product kProduct, int kSum, int kRows, int kWeights>
[[gnu::always_inline]] inline void tile_dot() {
  if constexpr (kProduct == Product::kCodes) {
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kRows), "i"(kWeights));
  } else {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kRows), "i"(kWeights));
  }
}

[[gnu::always_inline]] inline void stream(Vec v, float* to) { _mm512_stream_ps(to, v.v); }
[[gnu::always_inline]] inline void finish_streams() { _mm_sfence(); }

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
