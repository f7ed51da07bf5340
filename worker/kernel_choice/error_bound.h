// SPDX-License-Identifier: Apache-2.0
// Shapes for trials of kernels, and how much two correct kernels of linears may differ.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "base/numbers/dtype.h"
#include "operators/op.h"

namespace lockstep {

struct TrialShape {
  DType weight = DType::kNone;
  DType x = DType::kNone;
  int64_t cols = 0;  // Columns of the product: the weight's rows, per expert if there are experts.
  int64_t depth = 0;
  bool bias = false;
  Op op = Op::kLinear;  // For an attention, cols is for all heads, and depth for one head.
  int64_t experts = 0;  // For expert_linear.
  auto operator<=>(const TrialShape&) const = default;  // NOLINT(modernize-use-nullptr)
};
// "linear bf16 [14336, 4096] with bias", "expert_linear bf16 8 x [14336, 4096]".
std::string text_of(const TrialShape& shape);

// The maximum difference between a kernel's output and the plain kernel's, for x of trial_x(), a
// weight's row of norm `norm`, and `bias`. Derived in error_bound.cc. `slices`: the kernel sums
// slices of K separately (fragments.h); else it adds all products in one unknown order.
double error_bound(const TrialShape& shape, bool slices, double norm, double bias);

// The expected output, and its maximum error.
struct Bounded {
  float value;
  double bound;
};

// The product of two sums: gated_linear's result if its function changes nothing.
Bounded product_of(const Bounded& a, const Bounded& b);

}  // namespace lockstep
