// SPDX-License-Identifier: Apache-2.0
// exp, log, sin and cos in double from +, -, *, / alone, so that they give the same bits on every
// machine; libm's bits depend on its version. Relative error below 1e-14. For rare computations
// (rotary angles, noise, sampling); kernels have vector forms of their own.
#pragma once

#include <cstdint>

namespace lockstep {

double exact_exp(double x);  // 0 below -745.14; +inf above 709.79.
double exact_log(double x);  // -inf at 0; NaN for x < 0.
double exact_sin(double x);  // For |x| < 2^30.
double exact_cos(double x);
double exact_pow(double base, double exponent);  // For base > 0.

// Gumbel noise -log(-log(u)) of a token: u is uniform in (0, 1), drawn by a counter-based generator
// from (seed, position, id), so that a draw depends on nothing else.
float gumbel_noise(uint64_t seed, int64_t position, int32_t id);

// The source of the noise: Threefry-2x32 with 20 rounds, counter (id, 0), keyed by a mix of seed
// and position. Returns the upper 32 bits, and sets *low to the lower 32. u = (the upper 52 bits +
// 1/2) / 2^52.
uint64_t gumbel_key(uint64_t seed, int64_t position);
uint32_t gumbel_bits(uint64_t seed, int64_t position, int32_t id, uint32_t* low);

}  // namespace lockstep
