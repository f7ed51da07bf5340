// SPDX-License-Identifier: Apache-2.0
// Operators that take each head by itself.
#include "tests/support/naive_kernels.h"

namespace lockstep::naive {

Matrices head_linear(const Args& a) {
  const Matrix &x = a.inputs[0], &weight = *a.parameters[0];
  const program::HeadsAttrs& attrs = a.attributes.heads();
  const int64_t in = attrs.in_dim(), out_dim = weight.cols / attrs.heads() / in;
  Matrix out(x.rows, attrs.heads() * out_dim);
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t head = 0; head < attrs.heads(); ++head) {
      for (int64_t c = 0; c < out_dim; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < in; ++k) {
          const int64_t at = attrs.transposed() ? c * in + k : k * out_dim + c;
          sum += double{weight.at(0, head * in * out_dim + at)} *
                 x.at(r, head * (x.cols / attrs.heads()) + k);
        }
        out.at(r, head * out_dim + c) = static_cast<float>(sum);
      }
    }
  }
  return {std::move(out)};
}

Matrices join_heads(const Args& a) {
  const int64_t heads = a.attributes.heads().heads();
  Matrix out(a.inputs[0].rows, a.inputs[0].cols + a.inputs[1].cols);
  for (int64_t r = 0; r < out.rows; ++r) {
    int64_t to = 0;
    for (int64_t head = 0; head < heads; ++head) {
      for (const Matrix* from : {&a.inputs[0], &a.inputs[1]}) {
        const int64_t dim = from->cols / heads;
        for (int64_t c = 0; c < dim; ++c) out.at(r, to++) = from->at(r, head * dim + c);
      }
    }
  }
  return {std::move(out)};
}

Matrices head_dot(const Args& a) {
  const Matrix &x = a.inputs[0], &v = a.inputs[3];
  const int64_t heads = a.attributes.heads().heads();
  const int64_t dim = x.cols / heads, v_dim = v.cols / heads;
  Matrix out = v;
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t head = 0; head < heads; ++head) {
      double dot = 0;
      for (int64_t i = head * dim; i < (head + 1) * dim; ++i) {
        dot += double{x.at(r, i)} * a.inputs[1].at(r, i) * a.inputs[2].at(r, i);
      }
      for (int64_t i = head * v_dim; i < (head + 1) * v_dim; ++i) {
        out.at(r, i) = static_cast<float>(dot * v.at(r, i));
      }
    }
  }
  return {std::move(out)};
}

Matrices expand_heads(const Args& a) {
  const Matrix& x = a.inputs[0];
  const int64_t dim = a.attributes.heads().out_dim();
  Matrix out(x.rows, x.cols * dim);
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t i = 0; i < out.cols; ++i) out.at(r, i) = x.at(r, i / dim);
  }
  return {std::move(out)};
}

}  // namespace lockstep::naive
