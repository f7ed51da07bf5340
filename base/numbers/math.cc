// SPDX-License-Identifier: Apache-2.0
// The one compiled copy of base/numbers/exact.h and base/numbers/noise.h.
#include "base/numbers/math.h"

#include "base/numbers/exact.h"
#include "base/numbers/noise.h"

namespace lockstep {

double exact_exp(double x) { return exact::exp(x); }
double exact_log(double x) { return exact::log(x); }
double exact_sin(double x) { return exact::sin(x); }
double exact_cos(double x) { return exact::cos(x); }
double exact_pow(double base, double exponent) { return exact::pow(base, exponent); }

uint64_t gumbel_key(uint64_t seed, int64_t position) { return exact::gumbel_key(seed, position); }
uint32_t gumbel_bits(uint64_t seed, int64_t position, int32_t id, uint32_t* low) {
  return exact::gumbel_bits(seed, position, id, low);
}
float gumbel_noise(uint64_t seed, int64_t position, int32_t id) {
  return exact::gumbel_noise(seed, position, id);
}

}  // namespace lockstep
