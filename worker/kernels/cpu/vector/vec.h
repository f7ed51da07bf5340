// SPDX-License-Identifier: Apache-2.0
// Vec is sixteen floats, for the ISA that LOCKSTEP_ISA names: only this file chooses between the
// implementations. Every operation gives the same bits on every ISA, so all kernels compiled from
// one source give the same bits, too. Lanes are added in one tree: i with i + 8, then i + 4, i + 2,
// i + 1.
//
//   Vec::zero(), Vec::splat(x), Vec::load(p), Vec::load(p, n): the first n lanes, the others 0, no
//   byte past them is read; load takes float, bfloat16 (uint16_t) or float16 (Half). v.store(p),
//   v.store(p, n): also to bfloat16, rounded to nearest even.
//   + - * /, fma(a, b, c) = a * b + c rounded once, sqrt(v), max(a, b) = a > b ? a : b,
//   select_less(a, b, yes, no) = a < b ? yes : no, select_number(a, yes, no): yes if a is not NaN,
//   swap_neighbours(v): lanes 2i and 2i + 1 exchanged; Vec::load_twice(p, n): the first n of
//   p[0..7], each in two lanes, the others 0; round_even(v): to whole numbers, |v| < 2^22;
//   scale_by_power(v, n): v * 2^n, a normal number, for a whole n; sum(v), max_lane(v).
//   The rows of a tile of linear: kTileRowsF32 for float32 weights, kTileRowsCodes for codes,
//   kTileRowsGroups for codes in groups (whose scaled sums need registers, too), kTileRowsBF16 for
//   bfloat16 (which needs registers for widening), kTileRowsWidened for bfloat16 on AVX-512 if x is
//   widened before. kTileQueries, kTileSums: the query heads and the vectors of sums of a tile of
//   attention. All are the maximum that the registers hold.
#pragma once

#define LOCKSTEP_LEVEL_portable 0
#define LOCKSTEP_LEVEL_avx2 1
#define LOCKSTEP_LEVEL_avx2_vnni 2
#define LOCKSTEP_LEVEL_avx512 3
#define LOCKSTEP_LEVEL_avx512_vnni 4
#define LOCKSTEP_LEVEL_avx512_bf16 5
#define LOCKSTEP_LEVEL_amx 6
// Emulated kernels, for tests (emulated/table.h).
#define LOCKSTEP_LEVEL_amx_emulated 0
#define LOCKSTEP_LEVEL_avx2_vnni_evex 2
#define LOCKSTEP_LEVEL_OF_INNER(isa) LOCKSTEP_LEVEL_##isa
#define LOCKSTEP_LEVEL_OF(isa) LOCKSTEP_LEVEL_OF_INNER(isa)

#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 3
#include "worker/kernels/cpu/vector/vec_avx512.h"
#elif LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 1
#include "worker/kernels/cpu/vector/vec_avx2.h"
#else
#include "worker/kernels/cpu/vector/vec_portable.h"
#endif

namespace lockstep::LOCKSTEP_ISA {

[[gnu::always_inline]] inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
[[gnu::always_inline]] inline int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace lockstep::LOCKSTEP_ISA
