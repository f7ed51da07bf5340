// SPDX-License-Identifier: Apache-2.0
// head_linear and join_heads, element by element.
#include "worker/kernels/reference/reference.h"

namespace lockstep::reference {

const char* head_linear(const KernelArgs& args) {
  const TensorView &x = args.in[0], &weight = args.in[1], &out = args.out[0];
  const int64_t heads = args.attrs.heads, in_dim = args.attrs.in_dim;
  if (heads == 0) return nullptr;
  const int64_t x_dim = x.cols / heads, out_dim = out.cols / heads;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < out.cols; ++c) {
      const int64_t head = c / out_dim, column = c % out_dim;
      double sum = 0;
      for (int64_t k = 0; k < in_dim; ++k) {
        const int64_t at = args.attrs.transposed ? column * in_dim + k : k * out_dim + column;
        sum += double{element(x, r, head * x_dim + k)} *
               element(weight, 0, head * in_dim * out_dim + at);
      }
      set_element(out, r, c, static_cast<float>(sum));
    }
  }
  return nullptr;
}

const char* join_heads(const KernelArgs& args) {
  const TensorView &x = args.in[0], &y = args.in[1], &out = args.out[0];
  const int64_t heads = args.attrs.heads;
  if (heads == 0) return nullptr;
  const int64_t first = x.cols / heads, second = y.cols / heads;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < out.cols; ++c) {
      const int64_t head = c / (first + second), column = c % (first + second);
      set_element(out, r, c,
                  column < first ? element(x, r, head * first + column)
                                 : element(y, r, head * second + column - first));
    }
  }
  return nullptr;
}

const char* head_dot(const KernelArgs& args) {
  const int64_t heads = args.attrs.heads;
  for (int64_t r = 0; r < args.out[0].rows; ++r) {
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t dim = args.in[0].cols / heads, v_dim = args.in[3].cols / heads;
      double dot = 0;
      for (int64_t i = head * dim; i < (head + 1) * dim; ++i) {
        dot += double{element(args.in[0], r, i)} * element(args.in[1], r, i) *
               element(args.in[2], r, i);
      }
      for (int64_t i = head * v_dim; i < (head + 1) * v_dim; ++i) {
        set_element(args.out[0], r, i, static_cast<float>(dot * element(args.in[3], r, i)));
      }
    }
  }
  return nullptr;
}

const char* expand_heads(const KernelArgs& args) {
  const TensorView& out = args.out[0];
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t i = 0; i < out.cols; ++i) {
      const int64_t head = i / (out.cols / args.attrs.heads);
      set_element(out, r, i, element(args.in[0], r, head));
    }
  }
  return nullptr;
}

}  // namespace lockstep::reference
