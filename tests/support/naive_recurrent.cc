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

Matrices recurrence(const Args& a) {
  const Matrix &q = a.inputs[0], &k = a.inputs[1], &v = a.inputs[2], &decay = a.inputs[3];
  const program::RecurrenceAttrs& attrs = a.attributes.recurrence();
  const int64_t k_dim = attrs.k_dim(), v_dim = attrs.v_dim();
  Matrix out(v.rows, v.cols);
  for (int64_t head = 0; head < attrs.heads(); ++head) {
    const int64_t keys = attrs.key_head_of(static_cast<int>(head)) * k_dim, own = head * k_dim;
    for (int64_t j = 0; j < v_dim; ++j) {
      std::vector<double> s(k_dim);  // A column of the state.
      for (int64_t r = 0; r < v.rows; ++r) {
        double known = 0, before = 0, after = 0;
        for (int64_t i = 0; i < k_dim; ++i) before += q.at(r, keys + i) * s[i];
        for (int64_t i = 0; i < k_dim && a.inputs.size() > 4; ++i) {
          known += a.inputs[4].at(r, own + i) * s[i];
        }
        for (int64_t i = 0; i < k_dim; ++i) {
          s[i] *= decay.at(r, decay.cols == attrs.heads() ? head : own + i);
          if (a.inputs.size() > 4) s[i] += a.inputs[5].at(r, own + i) * known;
          s[i] += double{k.at(r, keys + i)} * v.at(r, head * v_dim + j);
          after += q.at(r, keys + i) * s[i];
        }
        out.at(r, head * v_dim + j) = static_cast<float>(attrs.out_before() ? before : after);
      }
    }
  }
  return {std::move(out)};
}

Matrices shift(const Args& a) {
  const Matrix& x = a.inputs[0];
  Matrix out(x.rows, x.cols);
  for (int64_t r = 1; r < x.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) out.at(r, c) = x.at(r - 1, c);
  }
  return {std::move(out)};
}

// By the formula: every weight anew for every row.
Matrices wkv(const Args& a) {
  const Matrix &k = a.inputs[0], &v = a.inputs[1];
  Matrix out(k.rows, k.cols);
  for (int64_t c = 0; c < k.cols; ++c) {
    const double rate = std::exp(double{a.parameters[0]->at(0, c)});
    for (int64_t r = 0; r < k.rows; ++r) {
      double above = 0, below = 0;
      for (int64_t i = 0; i <= r; ++i) {
        const double exponent = i == r ? double{k.at(i, c)} + a.parameters[1]->at(0, c)
                                       : k.at(i, c) - static_cast<double>(r - 1 - i) * rate;
        above += std::exp(exponent) * v.at(i, c);
        below += std::exp(exponent);
      }
      out.at(r, c) = static_cast<float>(above / below);
    }
  }
  return {std::move(out)};
}

}  // namespace lockstep::naive
