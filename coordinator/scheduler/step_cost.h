// SPDX-License-Identifier: Apache-2.0
// A step's duration, learned from earlier steps: a + b * rows + c * keys read.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep {

// The quantities that determine a step's duration.
struct StepWork {
  int64_t rows = 0;
  int64_t keys = 0;  // Read by attention, per layer and head: each row's own position and all
                     // before it.
  // Adds `count` rows from `position` on.
  StepWork with(int64_t position, int64_t count) const {
    return {rows + count, keys + count * position + count * (count + 1) / 2};
  }
};

// Recursive least squares with directional forgetting (Cao and Schwartz, 2000): only newer steps of
// the same kind replace what was learned from a step, so an hour of decoding does not erase the
// cost of prompts. A step that took much longer than others (the machine was busy) has a small
// weight. Estimates use no cost below 0: instead of a negative cost they use 0, and the other costs
// are fitted again.
class StepCost {
 public:
  void learn(const StepWork& work, int64_t time_ns);
  double time_ns(const StepWork& work) const;
  // How many rows from `position` on, at most `wanted`, can be added to `work` so that the step
  // takes at most `budget_ns`, the usual deviation included. The estimate is not used for steps
  // more than twice as large as any seen.
  int64_t rows_within(int64_t budget_ns, const StepWork& work, int64_t position,
                      int64_t wanted) const;

 private:
  using Vector = std::array<double, 3>;
  using Matrix = std::array<Vector, 3>;
  static Vector features(const StepWork& work);
  static double dot(const Vector& a, const Vector& b);
  static Vector solve(const Matrix& matrix, const Vector& right);
  static Vector positive(const Matrix& information, const Vector& learned);

  Vector learned_ms_ = {};   // By feature; may be negative.
  Vector cost_ms_ = {};      // By feature, as estimates use it; none is negative.
  Matrix information_ = {};  // Summed outer products of features.
  double deviation_ms_ = 0;  // The usual error of the estimate.
  int64_t max_rows_ = 0;
};

}  // namespace lockstep
