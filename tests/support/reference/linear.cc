// SPDX-License-Identifier: Apache-2.0
// linear: out = x * weight^T (+ bias). gated_linear: gated() of that product's even columns (gate)
// and odd columns (up).
#include <vector>

#include "tests/support/reference/reference.h"

namespace lockstep::reference {

const char* linear(const KernelArgs& args) {
  const TensorView &x = args.in[0], &weight = args.in[1], &bias = args.in[2], &out = args.out[0];
  if (quantization(weight.dtype)) return linear_of_codes(args);
  fill(out, [&](int64_t r, int64_t n) {
    double sum = 0;
    for (int64_t k = 0; k < x.cols; ++k) sum += double{element(x, r, k)} * element(weight, n, k);
    return bias.data == nullptr ? sum : sum + element(bias, 0, n);
  });
  return nullptr;
}

const char* gated_linear(const KernelArgs& args) {
  const int64_t rows = args.in[0].rows, cols = args.out[0].cols;
  std::vector<float> pairs(static_cast<size_t>(2 * rows * cols)), halves(pairs.size());
  KernelArgs multiplying = args;
  multiplying.out[0] = {pairs.data(), rows, 2 * cols, 2 * cols, DType::kF32};
  linear(multiplying);
  KernelArgs gating = args;
  for (int half = 0; half < 2; ++half) {
    gating.in[half] = {halves.data() + half * rows * cols, rows, cols, cols, DType::kF32};
    fill(gating.in[half],
         [&](int64_t r, int64_t c) { return element(multiplying.out[0], r, 2 * c + half); });
  }
  return kernel(Op::kGated)(gating);
}

}  // namespace lockstep::reference
