// SPDX-License-Identifier: Apache-2.0
// Operators whose rows depend on the rows of their sequence before: here they have all of them.
#include <cmath>

#include "tests/support/naive_kernels.h"

namespace lockstep::naive {

Matrices conv(const Args& a) {
  const Matrix &x = a.inputs[0], &weight = *a.parameters[0];
  const int64_t taps = a.attributes.conv().taps();
  Matrix out(x.rows, x.cols);
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) {
      double sum = a.parameters.size() > 1 ? a.parameters[1]->at(0, c) : 0;
      for (int64_t j = 0; j < taps; ++j) {
        const int64_t from = r - taps + 1 + j;
        if (from >= 0) sum += double{weight.at(0, c * taps + j)} * x.at(from, c);
      }
      out.at(r, c) = static_cast<float>(sum);
    }
  }
  return {std::move(out)};
}

namespace {

// Columns [begin, begin + count) of a row, of length `length`.
std::vector<double> scaled(const Matrix& x, int64_t row, int64_t begin, int64_t count,
                           double length, double eps) {
  std::vector<double> result;
  double squares = eps;
  for (int64_t i = 0; i < count; ++i) squares += std::pow(double{x.at(row, begin + i)}, 2);
  for (int64_t i = 0; i < count; ++i) {
    result.push_back(x.at(row, begin + i) * length / std::sqrt(squares));
  }
  return result;
}

}  // namespace

Matrices delta_rule(const Args& a) {
  const Matrix &v = a.inputs[2], &decay = a.inputs[3], &rate = a.inputs[4];
  const program::RecurrenceAttrs& attrs = a.attributes.recurrence();
  const int64_t k_dim = attrs.k_dim(), v_dim = attrs.v_dim();
  Matrix out(v.rows, v.cols);
  for (int64_t head = 0; head < attrs.heads(); ++head) {
    const int64_t keys = attrs.key_head_of(static_cast<int>(head)) * k_dim, values = head * v_dim;
    std::vector<double> s(k_dim * v_dim);
    for (int64_t r = 0; r < v.rows; ++r) {
      const auto q = scaled(a.inputs[0], r, keys, k_dim, attrs.scale(), attrs.eps());
      const auto k = scaled(a.inputs[1], r, keys, k_dim, 1, attrs.eps());
      for (double& element : s) element *= decay.at(r, head);
      for (int64_t j = 0; j < v_dim; ++j) {
        double known = 0, sum = 0;
        for (int64_t i = 0; i < k_dim; ++i) known += k[i] * s[i * v_dim + j];
        const double change = rate.at(r, head) * (v.at(r, values + j) - known);
        for (int64_t i = 0; i < k_dim; ++i) {
          s[i * v_dim + j] += k[i] * change;
          sum += q[i] * s[i * v_dim + j];
        }
        out.at(r, values + j) = static_cast<float>(sum);
      }
    }
  }
  return {std::move(out)};
}

Matrices decay(const Args& a) {
  Matrix out = a.inputs[0];
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t c = 0; c < out.cols; ++c) {
      const double rate = std::exp(double{a.parameters[0]->at(0, c)});
      out.at(r, c) = static_cast<float>(std::exp(-rate * out.at(r, c)));
    }
  }
  return {std::move(out)};
}

}  // namespace lockstep::naive
