// SPDX-License-Identifier: Apache-2.0
// Features are scaled to about 1, so that one small number (kRegular) makes the matrix regular.
#include "coordinator/scheduler/step_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep {
namespace {

constexpr double kForget = 0.05;   // The part of earlier information that a step replaces.
constexpr double kRegular = 1e-6;  // The information about each cost before the first step.
constexpr double kOutlier = 3;     // In deviations: larger errors get less weight.
constexpr double kMinMs = 0.001;
constexpr double kMinDeviation = 0.02;  // Relative to the expected time.

}  // namespace

StepCost::Vector StepCost::features(const StepWork& work) {
  return {1, static_cast<double>(work.rows) / 64, static_cast<double>(work.keys) / 65536};
}

double StepCost::dot(const Vector& a, const Vector& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

// Gaussian elimination; the matrix is symmetric and positive.
StepCost::Vector StepCost::solve(const Matrix& matrix, const Vector& right) {
  Matrix left = matrix;
  Vector x = right;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t row = i + 1; row < 3; ++row) {
      const double factor = left[row][i] / left[i][i];
      for (size_t k = i; k < 3; ++k) left[row][k] -= factor * left[i][k];
      x[row] -= factor * x[i];
    }
  }
  for (size_t i = 3; i-- > 0;) {
    for (size_t k = i + 1; k < 3; ++k) x[i] -= left[i][k] * x[k];
    x[i] /= left[i][i];
  }
  return x;
}

// While a cost is below 0, sets the lowest one to 0 and fits the others again.
StepCost::Vector StepCost::positive(const Matrix& information, const Vector& learned) {
  Matrix left = information;
  Vector right = {};
  for (size_t i = 0; i < 3; ++i) right[i] = dot(information[i], learned);
  Vector costs = learned;
  for (int round = 0; round < 3; ++round) {
    const auto min =
        static_cast<size_t>(std::min_element(costs.begin(), costs.end()) - costs.begin());
    if (costs[min] >= 0) break;
    for (size_t i = 0; i < 3; ++i) left[min][i] = left[i][min] = i == min ? 1 : 0;
    right[min] = 0;
    costs = solve(left, right);
  }
  for (double& cost : costs) cost = std::max(cost, 0.0);
  return costs;
}

void StepCost::learn(const StepWork& work, int64_t time_ns) {
  const double time_ms = static_cast<double>(time_ns) / 1e6;
  const Vector step = features(work);
  const bool first = max_rows_ == 0;
  max_rows_ = std::max(max_rows_, work.rows);
  if (first) {
    for (size_t i = 0; i < 3; ++i) information_[i][i] = kRegular;
    deviation_ms_ = time_ms;
  }
  const double error = time_ms - dot(learned_ms_, step);
  deviation_ms_ = std::max({deviation_ms_, kMinDeviation * dot(cost_ms_, step), kMinMs});
  const double bound = kOutlier * deviation_ms_;
  const double weight = std::abs(error) <= bound ? 1 : bound / std::abs(error);
  deviation_ms_ += 0.1 * (std::min(std::abs(error), bound) - deviation_ms_);

  Vector known = {};  // The information about this kind of step.
  for (size_t i = 0; i < 3; ++i) known[i] = dot(information_[i], step);
  const double forget = kForget / dot(known, step);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t k = 0; k < 3; ++k) {
      information_[i][k] += weight * step[i] * step[k] - forget * known[i] * known[k];
    }
  }
  const Vector change = solve(information_, step);
  for (size_t i = 0; i < 3; ++i) learned_ms_[i] += weight * error * change[i];
  cost_ms_ = positive(information_, learned_ms_);
}

double StepCost::time_ns(const StepWork& work) const { return dot(cost_ms_, features(work)) * 1e6; }

int64_t StepCost::rows_within(int64_t budget_ns, const StepWork& work, int64_t position,
                              int64_t wanted) const {
  const double budget = static_cast<double>(budget_ns) - deviation_ms_ * 1e6;
  int64_t fits = 0;
  int64_t beyond = std::min(wanted, 2 * max_rows_ - work.rows) + 1;
  while (beyond - fits > 1) {
    const int64_t rows = (fits + beyond) / 2;
    (time_ns(work.with(position, rows)) <= budget ? fits : beyond) = rows;
  }
  return fits;
}

}  // namespace lockstep
