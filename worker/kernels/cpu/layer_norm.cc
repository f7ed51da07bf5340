// SPDX-License-Identifier: Apache-2.0
// y = (x - mean) / sqrt(mean of (x - mean)^2 + eps) * weight (+ bias) over a row. Sixteen partial
// sums in the order of the columns, then the lanes' tree.
#include "worker/kernels/cpu/chunks.h"
#include "worker/kernels/cpu/vec.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

// `bias` may be null. `y` may be `x`.
void normalize(const float* x, const float* weight, const float* bias, float* y, int64_t n,
               float eps) {
  Vec values = Vec::zero();
  for (int64_t i = 0; i < n; i += Vec::kLanes) values = values + Vec::load(x + i, n - i);
  const Vec mean = Vec::splat(sum(values) / static_cast<float>(n));
  // Stored and loaded again, so that the lanes behind the last column are zero.
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    (Vec::load(x + i, n - i) - mean).store(y + i, n - i);
  }
  Vec squares = Vec::zero();
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    const Vec v = Vec::load(y + i, n - i);
    squares = fma(v, v, squares);
  }
  const float variance = sum(squares) / static_cast<float>(n);
  const Vec scale = Vec::splat(1.0f / __builtin_sqrtf(variance + eps));
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    const Vec scaled = Vec::load(y + i, n - i) * scale;
    const Vec factor = Vec::load(weight + i, n - i);
    const Vec added = bias == nullptr ? Vec::zero() : Vec::load(bias + i, n - i);
    fma(scaled, factor, added).store(y + i, n - i);
  }
}

}  // namespace

const char* layer_norm(const KernelArgs& args) {
  const TensorView &x = args.in[0], &weight = args.in[1], &bias = args.in[2], &y = args.out[0];
  const float* added = bias.data == nullptr ? nullptr : bias.row<float>(0);
  for_rows(*args.parallel, x.rows, x.cols, [&](int64_t r) {
    normalize(x.row<float>(r), weight.row<float>(0), added, y.row<float>(r), x.cols,
              args.attrs.eps);
  });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA
