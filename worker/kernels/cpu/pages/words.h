// SPDX-License-Identifier: Apache-2.0
// Exact dot products of 16-bit integers within the lanes of a vector, for the ISA that LOCKSTEP_ISA
// names.
//
//   Words: sixteen lanes of two int16. Words::load(p): 32 int8, widened; Words::splat(p): the two
//   at p in every lane. dot_words(a, b, c): in each lane c + a0 b0 + a1 b1, which must stay below
//   2^31. store_words(v, p): the lanes of v rounded to the nearest integer, ties to even, if |v| <=
//   32767; for other v, NaN included, an undefined number that is the same on every ISA.
#pragma once

#include "worker/kernels/cpu/vector/dot.h"

#if LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 3
#include "worker/kernels/cpu/pages/words_avx512.h"
#elif LOCKSTEP_LEVEL_OF(LOCKSTEP_ISA) >= 1
#include "worker/kernels/cpu/pages/words_avx2.h"
#else
#include "worker/kernels/cpu/pages/words_portable.h"
#endif
