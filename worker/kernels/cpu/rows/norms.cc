// SPDX-License-Identifier: Apache-2.0
// rms_norm: out = x / sqrt(mean of x^2 + eps) * weight, over a row. add_norm: the same with x + y
// in place of x; the sum is also an output. layer_norm: out = (x - mean) / sqrt(mean of (x -
// mean)^2 + eps) * weight (+ bias), over a row. head_norm: rms_norm or layer_norm over each head of
// a row. A sum has sixteen partial sums, each in the order of the columns. These are then added in
// the order of sum() in vec.h.
#include "worker/kernels/cpu/chunks.h"
#include "worker/kernels/cpu/vector/vec.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

// The weights of the columns from i on; 1 if there is no weight.
Vec factor_at(const float* weight, int64_t i, int64_t n) {
  return weight == nullptr ? Vec::splat(1.0f) : Vec::load(weight + i, n - i);
}

// `weight` may be null.
void norm(const float* x, const float* weight, float* y, int64_t n, float eps) {
  Vec squares = Vec::zero();
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    const Vec v = Vec::load(x + i, n - i);
    squares = fma(v, v, squares);
  }
  const float mean = sum(squares) / static_cast<float>(n);
  const Vec scale = Vec::splat(1.0f / __builtin_sqrtf(mean + eps));
  for (int64_t i = 0; i < n; i += Vec::kLanes) {
    (Vec::load(x + i, n - i) * scale * factor_at(weight, i, n)).store(y + i, n - i);
  }
}

// `weight` and `bias` may be null. `y` may be `x`.
void centred_norm(const float* x, const float* weight, const float* bias, float* y, int64_t n,
                  float eps) {
  Vec values = Vec::zero();
  for (int64_t i = 0; i < n; i += Vec::kLanes) values = values + Vec::load(x + i, n - i);
  const Vec mean = Vec::splat(sum(values) / static_cast<float>(n));
  // Stored and loaded again, so that the lanes after the last column are zero.
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
    const Vec added = bias == nullptr ? Vec::zero() : Vec::load(bias + i, n - i);
    fma(scaled, factor_at(weight, i, n), added).store(y + i, n - i);
  }
}

// The row from column `begin` on, or null.
const float* row_or_null(const TensorView& weight, int64_t begin = 0) {
  return weight.data == nullptr ? nullptr : weight.row<float>(0) + begin;
}

}  // namespace

const char* rms_norm(const KernelArgs& args) {
  const TensorView &x = args.in[0], &weight = args.in[1], &y = args.out[0];
  for_rows(*args.parallel, x.rows, x.cols, [&](int64_t r) {
    norm(x.row<float>(r), weight.row<float>(0), y.row<float>(r), x.cols, args.attrs.norm().eps);
  });
  return nullptr;
}

const char* layer_norm(const KernelArgs& args) {
  const TensorView &x = args.in[0], &weight = args.in[1], &y = args.out[0];
  const float* bias = row_or_null(args.in[2]);
  for_rows(*args.parallel, x.rows, x.cols, [&](int64_t r) {
    centred_norm(x.row<float>(r), weight.row<float>(0), bias, y.row<float>(r), x.cols,
                 args.attrs.norm().eps);
  });
  return nullptr;
}

const char* head_norm(const KernelArgs& args) {
  const TensorView &x = args.in[0], &weight = args.in[1], &y = args.out[0];
  const int64_t dim = args.attrs.norm().head_dim;
  const bool by_head = weight.cols == x.cols;  // One weight per head, not one for all.
  for_rows(*args.parallel, x.rows, x.cols, [&](int64_t r) {
    for (int64_t head = 0; head + dim <= x.cols; head += dim) {
      const int64_t own = by_head ? head : 0;
      const float *from = x.row<float>(r) + head, *factor = row_or_null(weight, own);
      float* to = y.row<float>(r) + head;
      if (args.attrs.norm().centred) {
        centred_norm(from, factor, row_or_null(args.in[2], own), to, dim, args.attrs.norm().eps);
      } else {
        norm(from, factor, to, dim, args.attrs.norm().eps);
      }
    }
  });
  return nullptr;
}

const char* add_norm(const KernelArgs& args) {
  const TensorView &x = args.in[0], &y = args.in[1], &weight = args.in[2];
  const TensorView &total = args.out[0], &normed = args.out[1];
  for_rows(*args.parallel, x.rows, x.cols, [&](int64_t r) {
    const float *a = x.row<float>(r), *b = y.row<float>(r);
    float* t = total.row<float>(r);
    for (int64_t i = 0; i < x.cols; i += Vec::kLanes) {
      (Vec::load(a + i, x.cols - i) + Vec::load(b + i, x.cols - i)).store(t + i, x.cols - i);
    }
    norm(t, weight.row<float>(0), normed.row<float>(r), x.cols, args.attrs.norm().eps);
  });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA
