// SPDX-License-Identifier: Apache-2.0
// How much the results of two correct kernels may differ. u is 2^-24, w a row of the weight, |w|
// its norm.
//
// The elements of x are independent, with a symmetric distribution in [-1, 1]. So by Hoeffding's
// inequality a sum of any products x_k * w_k exceeds t * |w| with a probability of at most
// 2 exp(-t^2 / 2). For t = 9 no sum among 10^12 is expected to do so. Products of two 16-bit
// numbers are exact in float32; codes times scales are rounded to 16 bits first. Products of two
// float32 numbers are rounded together with the sum, by fma.
//
//   plain kernel: K sums in order, each rounded by u of itself:      K * u * t * |w|
//   any other order in float32:                                      the same
//   tensor cores: a step adds 16 products to a sum, and cuts off at most 2^-23 of the largest of
//   these 17 numbers from each of them. The largest is at most t * |w_j|, where w_j is the part of
//   w in the sum's slice. With n steps per slice, N = K / 16 in all, and Cauchy's inequality:
//       34 * u * t * (sum over slices of n |w_j|)  <=  34 * u * t * sqrt(n * N) * |w|
//   slices, then the bias, are added in order:           (slices + 2) * u * (t * |w| + |bias|)
//
// The bound of a difference is the sum of both kernels' bounds. |w| is not read from the weight,
// which is packed, but measured: the mean square of the plain kernel's outputs is |w|^2 / 3. With
// 64 rows or more the measured |w| is off by less than half.
//
// A trial of gated_linear compares the product of two sums. The plain kernel computes these sums as
// a and b. If another kernel's sums differ from them by at most A and B, its product differs by at
// most P = |a| B + |b| A + A B, plus 3 u (P + |a b|) for rounding on both sides.
#include "worker/kernel_choice/error_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

constexpr double kUnit = 0x1p-24;
constexpr double kSpread = 9;  // t in the comment above.
constexpr int64_t kSliceDepth = 1024;
constexpr int64_t kStepDepth = 16;
constexpr int64_t kStepsPerSlice = kSliceDepth / kStepDepth;

}  // namespace

std::string text_of(const TrialShape& shape) {
  const std::string rows =
      shape.x == shape.weight ? "" : fmt::format(" of {} rows", dtype_short_name(shape.x));
  const std::string experts = shape.experts == 0 ? "" : fmt::format("{} x ", shape.experts);
  return fmt::format("{} {} {}[{}, {}]{}{}", op_name(shape.op), dtype_short_name(shape.weight),
                     experts, shape.cols, shape.depth, rows, shape.bias ? " with bias" : "");
}

double error_bound(const TrialShape& shape, bool slices, double norm, double bias) {
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
