// SPDX-License-Identifier: Apache-2.0
// Runs the operations of exact::exp in the same order on four numbers at once; each lane has the
// bits of a single call. Each step of the series depends on the step before. So a single number
// would leave most of the processor's units idle.
#include "base/numbers/exact_exps.h"

#include <cstring>

#include "base/numbers/exact.h"
#include "base/numbers/math.h"
#include "base/system/cpu.h"

namespace lockstep {
namespace {

#if defined(__x86_64__)

constexpr size_t kLanes = 4;
using Doubles = double __attribute__((vector_size(kLanes * 8)));
using Longs = int64_t __attribute__((vector_size(kLanes * 8)));
using Ints = int32_t __attribute__((vector_size(kLanes * 4)));

// `count` is a multiple of kLanes.
__attribute__((target("avx2"))) void exps_of_fours(double* values, size_t count) {
  for (double* four = values; four < values + count; four += kLanes) {
    Doubles x;
    std::memcpy(&x, four, sizeof(x));
    const Longs inside = x <= 709.79;  // False for NaN.
    if ((inside[0] & inside[1] & inside[2] & inside[3]) == 0) {
      for (size_t lane = 0; lane < kLanes; ++lane) four[lane] = exact_exp(four[lane]);
      continue;
    }
    const Longs is_not_zero = x >= -745.14;
    x = reinterpret_cast<Doubles>(reinterpret_cast<Longs>(x) & is_not_zero);
    // Rounds with ties away from zero: adds one half with the number's sign.
    const Doubles scaled = x * exact::kLog2E;
    const Longs sign = reinterpret_cast<Longs>(scaled) & std::numeric_limits<int64_t>::min();
    const auto half = reinterpret_cast<Doubles>(sign | reinterpret_cast<Longs>(Doubles{} + 0.5));
    const Ints n = __builtin_convertvector(scaled + half, Ints);
    const Doubles whole = __builtin_convertvector(n, Doubles);
    const Doubles high = x - whole * exact::kLn2High;
    const Doubles r = high - whole * exact::kLn2Low;
    Doubles series;
    exact::exp_series(r, &series);
    const Ints first = n / 2;
    const Longs low = (__builtin_convertvector(first, Longs) + 1023) << 52;
    const Longs rest = (__builtin_convertvector(n - first, Longs) + 1023) << 52;
    const Doubles exps = series * reinterpret_cast<Doubles>(low) * reinterpret_cast<Doubles>(rest);
    const Longs bits = reinterpret_cast<Longs>(exps) & is_not_zero;
    std::memcpy(four, &bits, sizeof(bits));
  }
}

// Replaces values from the first one on, and returns their number: a multiple of kLanes, or 0.
size_t exps_of_many(std::span<double> values) {
  static const bool runs = best_isa() >= Isa::kAvx2;
  if (!runs) return 0;
  const size_t count = values.size() / kLanes * kLanes;
  exps_of_fours(values.data(), count);
  return count;
}

#else

size_t exps_of_many(std::span<double>) { return 0; }

#endif

}  // namespace

void exact_exps(std::span<double> values) {
  for (double& value : values.subspan(exps_of_many(values))) value = exact_exp(value);
}

}  // namespace lockstep
