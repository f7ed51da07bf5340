// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/cuda/shim/tensor_core.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lockstep::shim {
namespace {

constexpr int kLanes = 4, kVectors = 16 / kLanes;
constexpr int32_t kFractionBits = 25;
// The smallest shift of a product. A product of significands is less than 4, so with this shift, as
// with a smaller one, it is cut off to 0.
constexpr int32_t kMinShift = -3;

using Floats [[gnu::vector_size(16)]] = float;
using Ints [[gnu::vector_size(16)]] = int32_t;

template <typename To, typename From>
To load(const From* from) {
  To to;
  std::memcpy(&to, from, sizeof(to));
  return to;
}

Ints larger(Ints x, Ints y) {
  const Ints first = x > y;
  return (x & first) | (y & ~first);
}

// The sum if some numbers are not finite: only those numbers decide it.
float non_finite_sum(const StepFactors& a, const StepFactors& b, float c) {
  float sum = c;
  for (int i = 0; i < 16; ++i) sum += a.significands[i] * b.significands[i];
  return std::isnan(sum) ? std::bit_cast<float>(0x7fffffffu) : sum;
}

// units * 2^exponent.
float cut_off(int64_t units, int32_t exponent) {
  constexpr double kSmallest = 0x1p-149, kSmallestNormal = 0x1p-126, kBeyondLargest = 0x1p128;
  const double sum = static_cast<double>(units) *
                     std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
  const double size = std::abs(sum);
  if (size < kSmallestNormal) {
    return static_cast<float>(static_cast<double>(static_cast<int64_t>(sum / kSmallest)) *
                              kSmallest);
  }
  if (size >= kBeyondLargest) return sum > 0 ? INFINITY : -INFINITY;
  return static_cast<float>(
      std::bit_cast<double>(std::bit_cast<uint64_t>(sum) & ~((uint64_t{1} << 29) - 1)));
}

}  // namespace

float add_step(const StepFactors& a, const StepFactors& b, float c) {
  Ints exponents[kVectors];
  Ints highest{};
  for (int i = 0; i < kVectors; ++i) {
    exponents[i] = load<Ints>(a.exponents + i * kLanes) + load<Ints>(b.exponents + i * kLanes);
    highest = i == 0 ? exponents[0] : larger(highest, exponents[i]);
  }
  const auto bits_of_c = std::bit_cast<uint32_t>(c);
  const auto field_of_c = static_cast<int32_t>(bits_of_c >> 23 & 0xff);
  const int32_t exponent_of_c = std::max(field_of_c, 1) - 127;
  const int32_t top = std::max({highest[0], highest[1], highest[2], highest[3], exponent_of_c});
  if (top >= kExponentOfNonFinite + kExponentOfZero || field_of_c == 0xff) {
    return non_finite_sum(a, b, c);
  }
  Ints units{};
  for (int i = 0; i < kVectors; ++i) {
    const Ints shift = larger(exponents[i] + (kFractionBits - top), Ints{} + kMinShift);
    const auto scale = std::bit_cast<Floats>((shift + 127) << 23);
    const Floats product =
        load<Floats>(a.significands + i * kLanes) * load<Floats>(b.significands + i * kLanes);
    units += __builtin_convertvector(product * scale, Ints);
  }
  const int64_t significand = (bits_of_c & 0x7fffffu) | (field_of_c == 0 ? 0u : 0x800000u);
  const int64_t size_of_c =
      (significand << (kFractionBits - 23)) >> std::min(top - exponent_of_c, 63);
  const int64_t sum = int64_t{units[0]} + units[1] + units[2] + units[3] +
                      (bits_of_c >> 31 != 0 ? -size_of_c : size_of_c);
  return cut_off(sum, top - kFractionBits);
}

}  // namespace lockstep::shim
