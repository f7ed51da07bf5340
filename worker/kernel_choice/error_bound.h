// SPDX-License-Identifier: Apache-2.0
// The shapes of linears that kernels are tried at, and how far two right kernels may be apart.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "base/numbers/dtype.h"
#include "operators/op.h"

namespace lockstep {

struct LinearShape {
  DType weight = DType::kNone;
  DType x = DType::kNone;
  int64_t cols = 0;  // Of the product: the weight's rows.
  int64_t depth = 0;
  bool bias = false;
  Op op = Op::kLinear;                                   // Or kGatedLinear.
  auto operator<=>(const LinearShape&) const = default;  // NOLINT(modernize-use-nullptr)
};
std::string text_of(const LinearShape& shape);  // "linear bf16 [14336, 4096] with bias".

// The most that a kernel's output may differ from the plain one's, for x of trial_x(), a weight's
// row of that norm and a bias of that size. Derived in error_bound.cc. `slices`: its sums are in
// slices of K (fragments.h), else in one of which nothing is known.
double error_bound(const LinearShape& shape, bool slices, double norm, double bias);

// What an output should be, and how far off it may be.
struct Bounded {
  float value;
  double bound;
};

// What gated_linear gives of two sums where its function changes nothing.
Bounded product_of(const Bounded& a, const Bounded& b);

}  // namespace lockstep
