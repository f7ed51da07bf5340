// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "tests/support/naive_kernels.h"

namespace lockstep::naive {
namespace {

// Of one row, by repeated search: the expert that is best of those left, then the next.
std::vector<size_t> chosen_of(const std::vector<double>& keys, std::vector<bool> open,
                              int64_t wanted) {
  std::vector<size_t> chosen;
  for (int64_t n = 0; n < wanted; ++n) {
    size_t best = keys.size();
    for (size_t i = 0; i < keys.size(); ++i) {
      if (open[i] && (best == keys.size() || keys[i] > keys[best])) best = i;
    }
    LOCKSTEP_CHECK(best < keys.size());
    open[best] = false;
    chosen.push_back(best);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<bool> open_experts(const program::RouteAttrs& route, const std::vector<double>& keys) {
  const size_t groups = static_cast<size_t>(route.groups()), each = keys.size() / groups;
  std::vector<double> of_groups;
  for (size_t g = 0; g < groups; ++g) {
    std::vector<double> own(keys.begin() + static_cast<int64_t>(g * each),
                            keys.begin() + static_cast<int64_t>((g + 1) * each));
    std::sort(own.rbegin(), own.rend());
    of_groups.push_back(route.best_two() ? own[0] + own[1] : own[0]);
  }
  std::vector<bool> open(keys.size());
  for (const size_t g :
       chosen_of(of_groups, std::vector<bool>(groups, true), route.chosen_groups())) {
    for (size_t i = 0; i < each; ++i) open[g * each + i] = true;
  }
  return open;
}

void softmax(std::vector<double>& x) {
  double sum = 0;
  for (double& value : x) sum += value = std::exp(value);
  for (double& value : x) value /= sum;
}

}  // namespace

Matrices route(const Args& a) {
  const program::RouteAttrs& spec = a.attributes.route();
  const Matrix& x = a.inputs[0];
  Matrix ids(x.rows * spec.chosen(), 1), weights(x.rows * spec.chosen(), 1);
  for (int64_t r = 0; r < x.rows; ++r) {
    std::vector<double> scores(x.data.begin() + r * x.cols, x.data.begin() + (r + 1) * x.cols);
    if (!spec.sigmoid() && !spec.softmax_of_chosen()) softmax(scores);
    for (double& score : scores) score = spec.sigmoid() ? 1 / (1 + std::exp(-score)) : score;
    std::vector<double> keys = scores, kept;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!a.parameters.empty()) keys[i] += a.parameters[0]->data[i];
    }
    const auto chosen = chosen_of(keys, open_experts(spec, keys), spec.chosen());
    for (const size_t expert : chosen) kept.push_back(scores[expert]);
    if (spec.softmax_of_chosen()) softmax(kept);
    double sum = 0;
    for (const double weight : kept) sum += weight;
    for (size_t n = 0; n < chosen.size(); ++n) {
      const int64_t at = r * spec.chosen() + static_cast<int64_t>(n);
      ids.at(at, 0) = static_cast<float>(chosen[n]);
      weights.at(at, 0) =
          static_cast<float>(kept[n] * spec.scale() / (spec.renormalised() ? sum : 1));
    }
  }
  return {std::move(ids), std::move(weights)};
}

// Ids are floats here, as all values.
Matrices expert_linear(const Args& a) {
  const Matrix &x = a.inputs[0], &ids = a.inputs[1], &weight = *a.parameters[0];
  const int64_t experts = a.attributes.expert().experts(), cols = weight.rows / experts;
  Matrix out(ids.rows, cols);
  for (int64_t r = 0; r < out.rows; ++r) {
    const int64_t row = r / (out.rows / x.rows), top = static_cast<int64_t>(ids.at(r, 0)) * cols;
    for (int64_t n = 0; n < cols; ++n) {
      double sum = a.parameters.size() > 1 ? a.parameters[1]->data[top + n] : 0;
      for (int64_t k = 0; k < x.cols; ++k) sum += double{x.at(row, k)} * weight.at(top + n, k);
      out.at(r, n) = static_cast<float>(sum);
    }
  }
  return {std::move(out)};
}

Matrices expert_scale(const Args& a) {
  Matrix out = a.inputs[0];
  for (int64_t r = 0; r < out.rows; ++r) {
    const auto id = static_cast<int64_t>(a.inputs[1].at(r, 0));
    for (int64_t c = 0; c < out.cols; ++c) out.at(r, c) *= a.parameters[0]->at(0, id);
  }
  return {std::move(out)};
}

Matrices combine(const Args& a) {
  const Matrix &x = a.inputs[0], &weights = a.inputs[1];
  Matrix out(static_cast<int64_t>(a.tokens.size()), x.cols);
  const int64_t each = x.rows / out.rows;
  for (int64_t route = 0; route < x.rows; ++route) {
    for (int64_t c = 0; c < x.cols; ++c) {
      out.at(route / each, c) += weights.at(route, 0) * x.at(route, c);
    }
  }
  return {std::move(out)};
}

}  // namespace lockstep::naive
