// SPDX-License-Identifier: Apache-2.0
// How far two right kernels may be apart. u is 2^-24, w a row of the weight, |w| its norm.
//
// x is drawn from [-1, 1], symmetric and independent, so that by Hoeffding's inequality a sum of
// any of the products x_k * w_k is beyond t * |w| with a probability of at most 2 exp(-t^2 / 2):
// with t = 9 none of 10^12 sums is. Products of two numbers of 16 bits, codes times scales among
// them, are exact in float32; those of float32 are rounded together with the sum, by fma.
//
//   plain kernel: K sums in order, each rounded by u of itself:      K * u * t * |w|
//   any other order in float32:                                      the same
//   tensor cores: a step adds 16 products to a sum and cuts off each of these 17 numbers by at most
//   2^-23 of the largest, which is no larger than t * |w_j|, w_j being the part of w in the sum's
//   slice. With n steps a slice, N = K / 16 in all, and Cauchy's inequality:
//       34 * u * t * (sum over slices of n |w_j|)  <=  34 * u * t * sqrt(n * N) * |w|
//   slices, then the bias, are added in order:           (slices + 2) * u * (t * |w| + |bias|)
//
// The bound of a difference is the sum of both kernels'. |w| is not read from the weight, which is
// packed, but measured: the mean square of the plain kernel's outputs is |w|^2 / 3, and from 64
// rows and more it is not off by half.
//
// What is tried of gated_linear is the product of two sums. The plain kernel gives them as a and b;
// with bounds A and B of their differences the product is at most P = |a| B + |b| A + A B off, and
// for rounding it on both sides 3 u (P + |a b|).
#include "worker/kernel_choice/error_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

constexpr double kUnit = 0x1p-24;
constexpr double kSpread = 9;  // t.
constexpr int64_t kSliceDepth = 1024;
constexpr int64_t kStepDepth = 16;
constexpr int64_t kStepsPerSlice = kSliceDepth / kStepDepth;

}  // namespace

std::string text_of(const LinearShape& shape) {
  const std::string rows =
      shape.x == shape.weight ? "" : fmt::format(" of {} rows", dtype_short_name(shape.x));
  return fmt::format("{} {} [{}, {}]{}{}", op_name(shape.op), dtype_short_name(shape.weight),
                     shape.cols, shape.depth, rows, shape.bias ? " with bias" : "");
}

double error_bound(const LinearShape& shape, bool slices, double norm, double bias) {
  const auto depth = static_cast<double>(shape.depth);
  const double of_plain = depth, size = kSpread * norm;
  double of_other = depth;
  double count = 1;
  if (shape.weight != DType::kF32) {
    const double steps = std::ceil(depth / kStepDepth);
    count = slices ? std::ceil(depth / kSliceDepth) : 1;
    const double in_slice = slices ? std::min<double>(steps, kStepsPerSlice) : steps;
    of_other = 34 * std::sqrt(in_slice * steps);
  }
  return kUnit * ((of_plain + of_other) * size + (count + 2) * (size + std::abs(bias)));
}

Bounded product_of(const Bounded& a, const Bounded& b) {
  const double exact = double{a.value} * double{b.value};
  const double apart =
      std::abs(double{a.value}) * b.bound + std::abs(double{b.value}) * a.bound + a.bound * b.bound;
  return {a.value * b.value, apart + 3 * kUnit * (std::abs(exact) + apart)};
}

}  // namespace lockstep
