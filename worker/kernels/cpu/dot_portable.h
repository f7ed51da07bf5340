// SPDX-License-Identifier: Apache-2.0
// Dot products in arrays: what the others must agree with.
#pragma once

#include "worker/kernels/cpu/vec_portable.h"

namespace lockstep::portable {

struct Pairs {
  uint16_t element[2 * Vec::kLanes];
  static Pairs load(const uint16_t* p) {
    Pairs pairs;
    __builtin_memcpy(pairs.element, p, sizeof(pairs.element));
    return pairs;
  }
  static Pairs splat(const uint16_t* p) {
    Pairs pairs;
    for (int64_t i = 0; i < 2 * Vec::kLanes; ++i) pairs.element[i] = p[i % 2];
    return pairs;
  }
  float at(int64_t i) const {
    return __builtin_bit_cast(float, static_cast<uint32_t>(element[i]) << 16);
  }
};

inline Vec dot_pairs(const Pairs& a, const Pairs& b, const Vec& c) {
  return per_lane([&](int64_t i) {
    const float odd = __builtin_fmaf(a.at(2 * i + 1), b.at(2 * i + 1), c.lane[i]);
    return __builtin_fmaf(a.at(2 * i), b.at(2 * i), odd);
  });
}

}  // namespace lockstep::portable
