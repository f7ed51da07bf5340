// SPDX-License-Identifier: Apache-2.0
// The operators of a mixture of experts: route, expert_linear, expert_scale and combine.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/numbers/quantization.h"
#include "tests/support/reference/reference.h"

namespace lockstep::reference {
namespace {

using Numbers = std::vector<double>;

// The `count` numbers n of `allowed` with the largest keys[n], in ascending order. If keys are
// equal, the lower number is chosen.
std::vector<int64_t> best_of(const Numbers& keys, const std::vector<int64_t>& allowed,
                             int64_t count) {
  std::vector<int64_t> best = allowed;
  std::stable_sort(best.begin(), best.end(), [&](int64_t a, int64_t b) {
    return keys[static_cast<size_t>(a)] > keys[static_cast<size_t>(b)];
  });
  best.resize(static_cast<size_t>(count));
  std::sort(best.begin(), best.end());
  return best;
}

std::vector<int64_t> numbers_below(int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

Numbers softmax(const Numbers& x) {
  const double max = *std::max_element(x.begin(), x.end());
  Numbers y;
  for (const double value : x) y.push_back(std::exp(value - max));
  const double sum = std::accumulate(y.begin(), y.end(), 0.0);
  for (double& value : y) value /= sum;
  return y;
}

// The experts of the best groups.
std::vector<int64_t> allowed_experts(const RouteAttrs& attrs, const Numbers& keys) {
  const int64_t each = static_cast<int64_t>(keys.size()) / attrs.groups;
  Numbers of_groups;
  for (int64_t g = 0; g < attrs.groups; ++g) {
    Numbers own(keys.begin() + g * each, keys.begin() + (g + 1) * each);
    std::sort(own.begin(), own.end(), std::greater<>());
    of_groups.push_back(own[0] + (attrs.best_two ? own[1] : 0));
  }
  std::vector<int64_t> experts;
  for (const int64_t g : best_of(of_groups, numbers_below(attrs.groups), attrs.chosen_groups)) {
    for (int64_t i = 0; i < each; ++i) experts.push_back(g * each + i);
  }
  return experts;
}

// Rows [begin, begin + rows) of a matrix. For a quantized matrix `codes` stores their pointers.
TensorView rows_of(const TensorView& matrix, int64_t begin, int64_t rows, QuantizedRows& codes) {
  TensorView part = matrix;
  part.rows = rows;
  if (const auto kind = quantization(matrix.dtype)) {
    const int64_t numbers = begin * group_count(*kind, matrix.cols);
    codes = *static_cast<const QuantizedRows*>(matrix.data);
    codes.codes += begin * matrix.cols;
    codes.scales += numbers;
    if (codes.minima != nullptr) codes.minima += numbers;
    part.data = &codes;
  } else {
    part.data =
        static_cast<std::byte*>(matrix.data) + begin * row_bytes(matrix.dtype, matrix.stride);
  }
  return part;
}

}  // namespace

const char* route(const KernelArgs& args) {
  const TensorView &x = args.in[0], &bias = args.in[1];
  const RouteAttrs& attrs = args.attrs.route();
  for (int64_t r = 0; r < x.rows; ++r) {
    Numbers scores, keys;
    for (int64_t i = 0; i < x.cols; ++i) scores.push_back(element(x, r, i));
    if (!attrs.sigmoid && !attrs.softmax_of_chosen) scores = softmax(scores);
    for (double& score : scores) score = attrs.sigmoid ? 1 / (1 + std::exp(-score)) : score;
    for (int64_t i = 0; i < x.cols; ++i) {
      keys.push_back(scores[static_cast<size_t>(i)] +
                     (bias.data == nullptr ? 0 : element(bias, 0, i)));
    }
    const auto chosen = best_of(keys, allowed_experts(attrs, keys), attrs.chosen);
    Numbers weights;
    for (const int64_t expert : chosen) weights.push_back(scores[static_cast<size_t>(expert)]);
    if (attrs.softmax_of_chosen) weights = softmax(weights);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (int64_t n = 0; n < attrs.chosen; ++n) {
      double weight = weights[static_cast<size_t>(n)];
      if (attrs.renormalised) weight /= sum + 1e-20;
      const int64_t route = r * attrs.chosen + n;
      *args.out[0].row<int32_t>(route) = static_cast<int32_t>(chosen[static_cast<size_t>(n)]);
      set_element(args.out[1], route, 0, static_cast<float>(weight * attrs.scale));
    }
  }
  return nullptr;
}

const char* expert_linear(const KernelArgs& args) {
  const TensorView &x = args.in[0], &ids = args.in[1], &weight = args.in[2], &bias = args.in[3];
  const int64_t cols = args.out[0].cols, each = args.out[0].rows / std::max<int64_t>(1, x.rows);
  for (int64_t route = 0; route < args.out[0].rows; ++route) {
    const int64_t expert = *ids.row<int32_t>(route), row = route / each;
    QuantizedRows no_codes, codes;
    KernelArgs one;
    one.in[0] = rows_of(x, row, 1, no_codes);
    one.in[1] = rows_of(weight, expert * cols, cols, codes);
    if (bias.data != nullptr) {
      one.in[2] = bias;
      one.in[2].data = bias.row<float>(0) + expert * cols;
      one.in[2].cols = cols;
    }
    one.out[0] = rows_of(args.out[0], route, 1, no_codes);
    kernel(Op::kLinear)(one);
  }
  return nullptr;
}

const char* expert_scale(const KernelArgs& args) {
  const TensorView &x = args.in[0], &ids = args.in[1], &weight = args.in[2];
  fill(args.out[0], [&](int64_t r, int64_t c) {
    const int32_t id = *ids.row<int32_t>(r);
    return element(x, r, c) * (id >= 0 && id < weight.cols ? element(weight, 0, id) : 0);
  });
  return nullptr;
}

const char* combine(const KernelArgs& args) {
  const TensorView &x = args.in[0], &weights = args.in[1], &out = args.out[0];
  const int64_t each = x.rows / std::max<int64_t>(1, out.rows);
  fill(out, [&](int64_t r, int64_t c) {
    double sum = 0;
    for (int64_t route = r * each; route < (r + 1) * each; ++route) {
      sum += double{element(weights, route, 0)} * element(x, route, c);
    }
    return sum;
  });
  return nullptr;
}

}  // namespace lockstep::reference
