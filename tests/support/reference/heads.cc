// SPDX-License-Identifier: Apache-2.0
// Operators that compute each head separately, element by element.
#include <algorithm>

#include "tests/support/reference/reference.h"

namespace lockstep::reference {

const char* head_linear(const KernelArgs& args) {
  const TensorView &x = args.in[0], &weight = args.in[1], &out = args.out[0];
  const int64_t heads = args.attrs.heads().heads, in_dim = args.attrs.heads().in_dim;
  if (heads == 0) return nullptr;
  const int64_t x_dim = x.cols / heads, out_dim = out.cols / heads;
  fill(out, [&](int64_t r, int64_t c) {
    const int64_t head = c / out_dim, column = c % out_dim;
    double sum = 0;
    for (int64_t k = 0; k < in_dim; ++k) {
      const int64_t at = args.attrs.heads().transposed ? column * in_dim + k : k * out_dim + column;
      sum += double{element(x, r, head * x_dim + k)} *
             element(weight, 0, head * in_dim * out_dim + at);
    }
    return sum;
  });
  return nullptr;
}

const char* join_heads(const KernelArgs& args) {
  const TensorView &x = args.in[0], &y = args.in[1];
  const int64_t heads = args.attrs.heads().heads;
  if (heads == 0) return nullptr;
  const int64_t first = x.cols / heads, second = y.cols / heads;
  fill(args.out[0], [&](int64_t r, int64_t c) {
    const int64_t head = c / (first + second), column = c % (first + second);
    return column < first ? element(x, r, head * first + column)
                          : element(y, r, head * second + column - first);
  });
  return nullptr;
}

const char* head_dot(const KernelArgs& args) {
  const TensorView &x = args.in[0], &v = args.in[3];
  const int64_t heads = args.attrs.heads().heads;
  if (heads == 0) return nullptr;
  const int64_t dim = x.cols / heads, v_dim = v.cols / heads;
  fill(args.out[0], [&](int64_t r, int64_t c) {
    const int64_t begin = c / v_dim * dim;
    double dot = 0;
    for (int64_t i = begin; i < begin + dim; ++i) {
      dot += double{element(x, r, i)} * element(args.in[1], r, i) * element(args.in[2], r, i);
    }
    return dot * element(v, r, c);
  });
  return nullptr;
}

const char* expand_heads(const KernelArgs& args) {
  const int64_t dim = args.out[0].cols / std::max<int64_t>(1, args.attrs.heads().heads);
  fill(args.out[0], [&](int64_t r, int64_t c) { return element(args.in[0], r, c / dim); });
  return nullptr;
}

}  // namespace lockstep::reference
