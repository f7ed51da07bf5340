// SPDX-License-Identifier: Apache-2.0
// How long a step takes, learned from the steps that were run: a + b * rows + c * keys read.
#pragma once

#include <array>
#include <cstdint>

namespace lockstep {

// What decides how long a step takes.
struct StepWork {
  int64_t rows = 0;
  int64_t keys = 0;  // That attention reads, of one layer and head: each row's own position and
                     // all before it.
  // With `count` rows from `position` on.
  StepWork with(int64_t position, int64_t count) const {
    return {rows + count, keys + count * position + count * (count + 1) / 2};
  }
};

// Recursive least squares with directional forgetting (Cao and Schwartz, 2000): what a step says
// is forgotten for newer steps of its kind only, so that an hour of decoding does not make it
// forget what prompts cost. A step that took much longer than others (the machine did something
// else) counts little. No cost is below 0: of those, the nearest to what was learned is taken.
class StepCost {
 public:
  void learn(const StepWork& work, int64_t time_ns);
  double time_ns(const StepWork& work) const;
  // Of rows from `position` on, at most `wanted`, how many can be added to `work` so that the step
  // takes at most `budget_ns`, the usual deviation included. Beyond twice the largest step that was
  // seen nothing is believed.
  int64_t rows_within(int64_t budget_ns, const StepWork& work, int64_t position,
                      int64_t wanted) const;

 private:
  using Vector = std::array<double, 3>;
  using Matrix = std::array<Vector, 3>;
  static Vector features(const StepWork& work);
  static double dot(const Vector& a, const Vector& b);
  static Vector solve(const Matrix& matrix, const Vector& right);
  static Vector positive(const Matrix& information, const Vector& learned);

  Vector learned_ms_ = {};   // Of each feature; may be negative.
  Vector cost_ms_ = {};      // The same, without negative ones.
  Matrix information_ = {};  // Summed outer products of features.
  double deviation_ms_ = 0;  // How far off steps are, usually.
  int64_t most_rows_ = 0;
};

}  // namespace lockstep
