// SPDX-License-Identifier: Apache-2.0
// Each function is compiled for the ISA in its name, so that the program runs everywhere. Operands
// pass through empty asm statements, so that the compiler knows nothing about them.
#include "tools/bench/peaks.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "base/system/read_loop.h"
#include "worker/kernels/four_pages.h"

namespace lockstep {
namespace {

constexpr int kChains = 12;

// Makes the compiler assume that the value was read and changed.
template <typename T>
[[gnu::always_inline]] inline void hide(T& value) {
  asm volatile("" : "+m"(value));
}

int64_t fp32_portable(int64_t iterations) {
  constexpr int kLanes = 4 * kChains;
  float factor[kLanes], sums[kLanes] = {};
  for (float& value : factor) value = 0.999f;
  hide(factor);
  for (int64_t i = 0; i < iterations; ++i) {
    for (int c = 0; c < kLanes; ++c) sums[c] = sums[c] * factor[c] + factor[c];
  }
  hide(sums);
  return iterations * kLanes * 2;
}

#ifdef __x86_64__

__attribute__((target("avx2,fma"))) int64_t fp32_avx2(int64_t iterations) {
  __m256 factor = _mm256_set1_ps(0.999f), sums[kChains] = {};
  hide(factor);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, factor);
  }
  hide(sums);
  return iterations * kChains * 8 * 2;
}

// Products of bytes. An instruction adds two of them in 16 bits. Then kSums results are added, also
// in 16 bits (eight fit if one factor has four bits). These sums are added up in 32 bits. Each
// product is an asm statement, because the compiler would compute equal products once.
template <int kSums>
__attribute__((target("avx2"))) int64_t bytes_avx2(int64_t iterations) {
  __m256i factor = _mm256_set1_epi8(7), ones = _mm256_set1_epi16(1), sums[6] = {};
  hide(factor);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 6
    for (__m256i& sum : sums) {
      __m256i words;
      asm volatile("vpmaddubsw %1, %1, %0" : "=x"(words) : "x"(factor));
#pragma GCC unroll 8
      for (int s = 1; s < kSums; ++s) {
        __m256i more;
        asm volatile("vpmaddubsw %1, %1, %0" : "=x"(more) : "x"(factor));
        words = _mm256_add_epi16(words, more);
      }
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(words, ones));
    }
  }
  hide(sums);
  return iterations * 6 * kSums * 32 * 2;
}

__attribute__((target("avx512f"))) int64_t fp32_avx512(int64_t iterations) {
  __m512 factor = _mm512_set1_ps(0.999f), sums[kChains] = {};
  hide(factor);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, factor);
  }
  hide(sums);
  return iterations * kChains * 16 * 2;
}

// The accumulators are the registers 0 to 11, whatever they contain. With intrinsics, g++ 12 would
// copy the accumulators back and forth in every iteration.
#define TWELVE_TIMES(instruction, factor)                                                          \
  asm volatile(".irp sum,0,1,2,3,4,5,6,7,8,9,10,11\n\t" instruction " %0, %0, %%zmm\\sum\n\t.endr" \
               :                                                                                   \
               : "v"(factor)                                                                       \
               : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",   \
                 "xmm10", "xmm11")

__attribute__((target("avx512f,avx512bf16"))) int64_t bf16_avx512(int64_t iterations) {
  const __m512i factor = _mm512_set1_epi16(0x3f7f);  // 0.996
  for (int64_t i = 0; i < iterations; ++i) TWELVE_TIMES("vdpbf16ps", factor);
  return iterations * kChains * 32 * 2;
}

__attribute__((target("avx512f,avx512vnni"))) int64_t int8_avx512(int64_t iterations) {
  const __m512i factor = _mm512_set1_epi8(77);
  for (int64_t i = 0; i < iterations; ++i) TWELVE_TIMES("vpdpbusd", factor);
  return iterations * kChains * 64 * 2;
}

#undef TWELVE_TIMES

__attribute__((target("avx2"))) int64_t int8_avx2_vnni(int64_t iterations) {
  const __m256i factor = _mm256_set1_epi8(77);
  for (int64_t i = 0; i < iterations; ++i) {
    asm volatile(
        ".irp sum,0,1,2,3,4,5,6,7,8,9,10,11\n\t%{vex%} vpdpbusd %0, %0, %%ymm\\sum\n\t.endr"
        :
        : "x"(factor)
        : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
          "xmm11");
  }
  return iterations * kChains * 32 * 2;
}

// Four independent sums, as in the kernels. Tiles are zeros: a product's time does not depend on
// numbers.
#define FOUR_PRODUCTS(instruction)                              \
  asm volatile(instruction " %tmm6, %tmm4, %tmm0\n" instruction \
                           " %tmm7, %tmm4, %tmm1\n" instruction \
                           " %tmm6, %tmm5, %tmm2\n" instruction " %tmm7, %tmm5, %tmm3")

template <typename Products>
int64_t run_tiles(int64_t iterations, int64_t depth, const Products& products) {
  struct {
    uint8_t palette = 1;
    uint8_t reserved[15] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } const config;
  asm volatile("ldtilecfg %0" : : "m"(config));
  for (int64_t i = 0; i < iterations; ++i) products();
  asm volatile("tilerelease");
  return iterations * 4 * 16 * 16 * depth * 2;
}

int64_t int8_amx(int64_t iterations) {
  return run_tiles(iterations, 64, [] { FOUR_PRODUCTS("tdpbsud"); });
}

int64_t bf16_amx(int64_t iterations) {
  return run_tiles(iterations, 32, [] { FOUR_PRODUCTS("tdpbf16ps"); });
}

#undef FOUR_PRODUCTS

// Called for every 256 bytes that are read.
template <ReadOrder kOrder>
[[gnu::always_inline]] inline void prefetch(const std::byte* used) {
  if (kOrder != ReadOrder::kFourPages) return;
  for (const std::byte* step : {used, used + 128}) {
    const std::byte* line = line_in_next_four_pages(step);
    __builtin_prefetch(line);
    __builtin_prefetch(line + kPageBytes);
  }
}

template <ReadOrder kOrder>
__attribute__((target("avx2"))) uint64_t read_avx2(const std::byte* from, int64_t bytes) {
  __m256i sums[8] = {};
  for (int64_t at = 0; at < bytes; at += sizeof(sums)) {
    prefetch<kOrder>(from + at);
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) {
      const auto* next = reinterpret_cast<const __m256i*>(from + at + 32 * v);
      sums[v] = _mm256_add_epi64(sums[v], _mm256_load_si256(next));
    }
  }
  hide(sums);
  return static_cast<uint64_t>(sums[0][0]);
}

template <ReadOrder kOrder>
__attribute__((target("avx512f"))) uint64_t read_avx512(const std::byte* from, int64_t bytes) {
  __m512i sums[4] = {};
  for (int64_t at = 0; at < bytes; at += sizeof(sums)) {
    prefetch<kOrder>(from + at);
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      sums[v] = _mm512_add_epi64(sums[v], _mm512_load_si512(from + at + 64 * v));
    }
  }
  hide(sums);
  return static_cast<uint64_t>(sums[0][0]);
}

constexpr Peak kPeaks[] = {
    {"fp32", Isa::kPortable, fp32_portable},
    {"fp32", Isa::kAvx2, fp32_avx2},
    {"bf16", Isa::kAvx2, fp32_avx2},
    {"int8", Isa::kAvx2, bytes_avx2<1>},
    {"int4", Isa::kAvx2, bytes_avx2<8>},
    {"int8", Isa::kAvx2Vnni, int8_avx2_vnni},
    {"int4", Isa::kAvx2Vnni, int8_avx2_vnni},
    {"fp32", Isa::kAvx512, fp32_avx512},
    {"bf16", Isa::kAvx512, fp32_avx512},
    {"int8", Isa::kAvx512Vnni, int8_avx512},
    {"int4", Isa::kAvx512Vnni, int8_avx512},
    {"bf16", Isa::kAvx512Bf16, bf16_avx512},
    {"int8", Isa::kAmx, int8_amx},
    {"int4", Isa::kAmx, int8_amx},
    {"bf16", Isa::kAmx, bf16_amx},
};

#else

constexpr Peak kPeaks[] = {{"fp32", Isa::kPortable, fp32_portable}};

#endif

}  // namespace

std::span<const Peak> peaks() { return kPeaks; }

uint64_t read_all(Isa isa, ReadOrder order, const std::byte* from, int64_t bytes) {
#ifdef __x86_64__
  const bool four_pages = order == ReadOrder::kFourPages;
  if (isa >= Isa::kAvx512) {
    return four_pages ? read_avx512<ReadOrder::kFourPages>(from, bytes)
                      : read_avx512<ReadOrder::kHardware>(from, bytes);
  }
  if (isa >= Isa::kAvx2) {
    return four_pages ? read_avx2<ReadOrder::kFourPages>(from, bytes)
                      : read_avx2<ReadOrder::kHardware>(from, bytes);
  }
#endif
  (void)isa, (void)order;
  return sum_of_words(from, bytes);
}

}  // namespace lockstep
