// SPDX-License-Identifier: Apache-2.0
// Dot products in arrays: the definition that the others must match.
#pragma once

#include "worker/kernels/cpu/vector/vec_portable.h"

namespace lockstep::LOCKSTEP_ISA {

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

inline Vec odd_of(const Pairs& a) {
  return per_lane([&](int64_t i) { return a.at(2 * i + 1); });
}
inline Vec even_of(const Pairs& a) {
  return per_lane([&](int64_t i) { return a.at(2 * i); });
}
inline Vec dot_pairs(const Pairs& a, const Pairs& b, const Vec& c) {
  return per_lane([&](int64_t i) {
    const float odd = __builtin_fmaf(a.at(2 * i + 1), b.at(2 * i + 1), c.lane[i]);
    return __builtin_fmaf(a.at(2 * i), b.at(2 * i), odd);
  });
}

struct Sums {
  int32_t lane[Vec::kLanes];
  static Sums splat(int32_t x) {
    Sums sums;
    for (int32_t& lane : sums.lane) lane = x;
    return sums;
  }
  static Sums load(const int32_t* p) {
    Sums sums;
    __builtin_memcpy(sums.lane, p, sizeof(sums.lane));
    return sums;
  }
  void store(int32_t* p) const { __builtin_memcpy(p, lane, sizeof(lane)); }
  void store_bytes(int8_t* p) const {
    for (int64_t i = 0; i < Vec::kLanes; ++i) p[i] = static_cast<int8_t>(lane[i]);
  }
};

template <typename F>
[[gnu::always_inline]] inline Sums per_sum(const F& f) {
  Sums sums;
  for (int64_t i = 0; i < Vec::kLanes; ++i) sums.lane[i] = f(i);
  return sums;
}

inline int32_t wrapped(uint32_t x) { return static_cast<int32_t>(x); }
inline Sums operator+(const Sums& a, const Sums& b) {
  return per_sum([&](int64_t i) {
    return wrapped(static_cast<uint32_t>(a.lane[i]) + static_cast<uint32_t>(b.lane[i]));
  });
}
inline Sums max(const Sums& a, const Sums& b) {
  return per_sum([&](int64_t i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline int32_t sum(const Sums& a) {
  uint32_t total = 0;
  for (const int32_t lane : a.lane) total += static_cast<uint32_t>(lane);
  return wrapped(total);
}
inline int32_t max_lane(const Sums& a) {
  int32_t largest = a.lane[0];
  for (const int32_t lane : a.lane) largest = lane > largest ? lane : largest;
  return largest;
}
inline Sums as_sums(const Vec& a) {
  return per_sum([&](int64_t i) { return __builtin_bit_cast(int32_t, a.lane[i]); });
}
inline Vec to_float(const Sums& a) {
  return per_lane([&](int64_t i) { return static_cast<float>(a.lane[i]); });
}
inline Sums to_int(const Vec& a) {
  return per_sum([&](int64_t i) {
    return __builtin_bit_cast(int32_t, a.lane[i] + kRound) - __builtin_bit_cast(int32_t, kRound);
  });
}
inline Sums magnitude(const Vec& a) {
  return per_sum([&](int64_t i) { return __builtin_bit_cast(int32_t, a.lane[i]) & 0x7fffffff; });
}
inline Vec times_power(const Vec& a, int32_t shifted) {
  return per_lane([&](int64_t i) {
    return __builtin_bit_cast(
        float, __builtin_bit_cast(uint32_t, a.lane[i]) + static_cast<uint32_t>(shifted));
  });
}

struct Quads {
  uint8_t element[4 * Vec::kLanes];
  static Quads load(const void* p) {
    Quads quads;
    __builtin_memcpy(quads.element, p, sizeof(quads.element));
    return quads;
  }
  static Quads splat(const void* p) {
    Quads quads;
    for (int64_t i = 0; i < Vec::kLanes; ++i) __builtin_memcpy(quads.element + 4 * i, p, 4);
    return quads;
  }
};

inline Quads low_nibbles(Quads a) {
  for (uint8_t& element : a.element) element &= 0x0f;
  return a;
}
inline Quads high_nibbles(Quads a) {
  for (uint8_t& element : a.element) element >>= 4;
  return a;
}
inline Sums dot_quads(const Quads& u, const Quads& s, const Sums& c) {
  return per_sum([&](int64_t i) {
    int32_t dot = 0;
    for (int64_t j = 4 * i; j < 4 * i + 4; ++j) {
      dot += u.element[j] * static_cast<int8_t>(s.element[j]);
    }
    return wrapped(static_cast<uint32_t>(c.lane[i]) + static_cast<uint32_t>(dot));
  });
}

}  // namespace lockstep::LOCKSTEP_ISA
