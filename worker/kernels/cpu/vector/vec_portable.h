// SPDX-License-Identifier: Apache-2.0
// Vec as an array: the definition that the others must match, and the fallback.
#pragma once

#include <cstdint>

#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {

struct Vec {
  static constexpr int64_t kLanes = 16;
  float lane[kLanes];

  static Vec splat(float x) {
    Vec v;
    for (float& f : v.lane) f = x;
    return v;
  }
  static Vec zero() { return splat(0.0f); }
  static Vec load(const float* p) { return load(p, kLanes); }
  static Vec load(const float* p, int64_t n) {
    Vec v = zero();
    for (int64_t i = 0; i < (n < kLanes ? n : kLanes); ++i) v.lane[i] = p[i];
    return v;
  }
  static Vec load(const uint16_t* p) { return load(p, kLanes); }
  static Vec load(const uint16_t* p, int64_t n) {
    Vec v = zero();
    for (int64_t i = 0; i < (n < kLanes ? n : kLanes); ++i) {
      v.lane[i] = __builtin_bit_cast(float, static_cast<uint32_t>(p[i]) << 16);
    }
    return v;
  }
  static Vec load_twice(const float* p, int64_t n) {
    Vec v = zero();
    for (int64_t i = 0; i < (n < 8 ? n : 8); ++i) v.lane[2 * i] = v.lane[2 * i + 1] = p[i];
    return v;
  }
  static Vec load(const Half* p) { return load(p, kLanes); }
  static Vec load(const Half* p, int64_t n) {
    Vec v = zero();
    for (int64_t i = 0; i < (n < kLanes ? n : kLanes); ++i) v.lane[i] = widen(p[i]);
    return v;
  }
  // A multiplication shifts the exponent and makes denormals normal, too.
  static float widen(Half half) {
    const uint32_t sign = (half.bits & 0x8000u) << 16, rest = half.bits & 0x7fffu;
    const float moved = __builtin_bit_cast(float, rest << 13) * 0x1p112f;
    const uint32_t special = rest >= 0x7c00u ? 0x7f800000u : 0;
    return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, moved) | special | sign);
  }
  void store(float* p) const { store(p, kLanes); }
  void store(float* p, int64_t n) const {
    for (int64_t i = 0; i < (n < kLanes ? n : kLanes); ++i) p[i] = lane[i];
  }
  void store(uint16_t* p) const { store(p, kLanes); }
  void store(uint16_t* p, int64_t n) const {
    for (int64_t i = 0; i < (n < kLanes ? n : kLanes); ++i) {
      const uint32_t bits = __builtin_bit_cast(uint32_t, lane[i]);
      p[i] = lane[i] != lane[i] ? static_cast<uint16_t>(bits >> 16 | 0x40u)
                                : static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    }
  }
};

inline constexpr int kTileRowsF32 = 4;
inline constexpr int kTileRowsCodes = 4;
inline constexpr int kTileRowsGroups = 4;
inline constexpr int kTileRowsBF16 = 4;
inline constexpr int kTileQueries = 2;
inline constexpr int kTileSums = 4;

template <typename F>
[[gnu::always_inline]] inline Vec per_lane(const F& f) {
  Vec v;
  for (int64_t i = 0; i < Vec::kLanes; ++i) v.lane[i] = f(i);
  return v;
}

inline Vec operator+(const Vec& a, const Vec& b) {
  return per_lane([&](int64_t i) { return a.lane[i] + b.lane[i]; });
}
inline Vec operator-(const Vec& a, const Vec& b) {
  return per_lane([&](int64_t i) { return a.lane[i] - b.lane[i]; });
}
inline Vec operator*(const Vec& a, const Vec& b) {
  return per_lane([&](int64_t i) { return a.lane[i] * b.lane[i]; });
}
inline Vec operator/(const Vec& a, const Vec& b) {
  return per_lane([&](int64_t i) { return a.lane[i] / b.lane[i]; });
}
inline Vec fma(const Vec& a, const Vec& b, const Vec& c) {
  return per_lane([&](int64_t i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
inline Vec sqrt(const Vec& a) {
  return per_lane([&](int64_t i) { return __builtin_sqrtf(a.lane[i]); });
}
inline Vec swap_neighbours(const Vec& a) {
  return per_lane([&](int64_t i) { return a.lane[i ^ 1]; });
}
inline Vec max(const Vec& a, const Vec& b) {
  return per_lane([&](int64_t i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline Vec select_less(const Vec& a, const Vec& b, const Vec& yes, const Vec& no) {
  return per_lane([&](int64_t i) { return a.lane[i] < b.lane[i] ? yes.lane[i] : no.lane[i]; });
}
inline Vec select_number(const Vec& a, const Vec& yes, const Vec& no) {
  return per_lane([&](int64_t i) { return a.lane[i] == a.lane[i] ? yes.lane[i] : no.lane[i]; });
}
inline constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer.
inline Vec round_even(const Vec& a) {
  return per_lane([&](int64_t i) { return a.lane[i] + kRound - kRound; });
}
inline Vec scale_by_power(const Vec& v, const Vec& n) {
  return per_lane([&](int64_t i) {
    const uint32_t power = __builtin_bit_cast(uint32_t, n.lane[i] + kRound) << 23;
    return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, v.lane[i]) + power);
  });
}
inline float sum(const Vec& v) {
  Vec t = v;
  for (int64_t half = Vec::kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) t.lane[i] = t.lane[i] + t.lane[i + half];
  }
  return t.lane[0];
}
inline float max_lane(const Vec& v) {
  Vec t = v;
  for (int64_t half = Vec::kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) {
      t.lane[i] = t.lane[i] > t.lane[i + half] ? t.lane[i] : t.lane[i + half];
    }
  }
  return t.lane[0];
}

}  // namespace lockstep::LOCKSTEP_ISA
