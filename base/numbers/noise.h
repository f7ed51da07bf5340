// SPDX-License-Identifier: Apache-2.0
// The noise functions of base/numbers/math.h, constexpr so that GPU code can call them and get the
// same bits. All other code uses base/numbers/math.h, which is compiled once.
#pragma once

#include <bit>
#include <cstdint>

#include "base/numbers/exact.h"

namespace lockstep::exact {

// A bijection of 64 bits in which each bit affects all bits (the finalizer of SplitMix64).
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr uint64_t gumbel_key(uint64_t seed, int64_t position) {
  return mix(mix(seed) + 0x9e3779b97f4a7c15u * (static_cast<uint64_t>(position) + 1));
}

constexpr uint32_t gumbel_bits(uint64_t seed, int64_t position, int32_t id, uint32_t* low) {
  const uint64_t key = gumbel_key(seed, position);
  const auto k0 = static_cast<uint32_t>(key);
  const auto k1 = static_cast<uint32_t>(key >> 32);
  const uint32_t keys[3] = {k0, k1, k0 ^ k1 ^ 0x1bd11bdau};
  constexpr int kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  uint32_t a = static_cast<uint32_t>(id) + keys[0];
  uint32_t b = keys[1];
  for (uint32_t round = 0; round < 20; ++round) {
    a += b;
    b = std::rotl(b, kRotations[round % 8]) ^ a;
    if (round % 4 != 3) continue;
    const uint32_t s = round / 4 + 1;
    a += keys[s % 3];
    b += keys[(s + 1) % 3] + s;
  }
  *low = b;
  return a;
}

constexpr float gumbel_noise(uint64_t seed, int64_t position, int32_t id) {
  uint32_t low = 0;
  const uint64_t high = gumbel_bits(seed, position, id, &low);
  const uint64_t bits = high << 20 | low >> 12;  // 52 bits; u is the middle of one of 2^52 cells.
  const double u = (static_cast<double>(bits) + 0.5) * 0x1p-52;
  return static_cast<float>(-log(-log(u)));
}

}  // namespace lockstep::exact
