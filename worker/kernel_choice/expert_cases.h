// SPDX-License-Identifier: Apache-2.0
// The cases of an expert_linear: a step of one token, of a few, and so on, up to as many tokens as
// a step may have. Experts have no row, one, a few, whole tiles, and one row more; some ids are of
// no expert. The shape is the program's, with all experts. Only a few matrices differ: they hold
// random numbers, and experts have copies of them.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/kernel_choice/same_bits_trial.h"

namespace lockstep {

class ExpertCases final : public TrialCases {
 public:
  // `each` is the number of routes of a token. `plain` decides the layout of weights.
  // kResourceExhausted: there is no memory for a trial.
  static absl::StatusOr<std::unique_ptr<ExpertCases>> make(const TrialPlace& place,
                                                           const TrialShape& shape, int64_t each,
                                                           const KernelEntry& plain);

  int count() const override { return static_cast<int>(cases_.size()); }
  KernelArgs args(int index) const override;
  absl::StatusOr<StepView*> step(int) override { return nullptr; }
  bool is_timed(int index) const override { return cases_[static_cast<size_t>(index)].is_timed; }

 private:
  struct Case {
    int64_t x_rows;
    int64_t each;       // Routes for each row of x.
    int64_t first = 0;  // The case's first id in ids_.
    bool is_timed = true;
  };

  ExpertCases(const TrialPlace& place, const TrialShape& shape, int64_t each);
  absl::Status prepare(const KernelEntry& plain);
  absl::Status place_ids();
  absl::Status place_weights(const KernelEntry& plain);

  const TrialPlace& place_;
  const TrialShape shape_;
  std::vector<Case> cases_;
  DeviceMemory x_, ids_, weights_, bias_;
};

}  // namespace lockstep
