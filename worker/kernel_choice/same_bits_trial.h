// SPDX-License-Identifier: Apache-2.0
// Trials of kernels that must have the same bits as the table's last kernel for their types.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/kernel_choice/trial.h"

namespace lockstep {

// The operands of one operator at one shape, for several numbers of rows.
class TrialCases {
 public:
  virtual ~TrialCases() = default;
  virtual int count() const = 0;
  // The arguments of a case, without a step; the output has no address.
  virtual KernelArgs args(int index) const = 0;
  // The case's step on the device, valid until the next call; null: kernels read no step.
  // kResourceExhausted: there is no memory for it.
  virtual absl::StatusOr<StepView*> step(int index) = 0;
  // Whether the case's time counts in the choice of a kernel.
  virtual bool is_timed(int index) const = 0;
};

class SameBitsTrials {
 public:
  // `plain`, the table's last kernel, computes the expected outputs. kResourceExhausted: there is
  // no memory for a trial. kFailedPrecondition: `plain` cannot run.
  static absl::StatusOr<std::unique_ptr<SameBitsTrials>> make(const TrialPlace& place,
                                                              std::unique_ptr<TrialCases> cases,
                                                              const KernelEntry& plain);
  // Like LinearTrials::run().
  absl::Status run(const KernelEntry& kernel, Trial* trial);

 private:
  SameBitsTrials(const TrialPlace& place, std::unique_ptr<TrialCases> cases,
                 const KernelEntry& plain)
      : place_(place), cases_(std::move(cases)), plain_(plain), calls_(place) {}
  absl::Status compute_wanted();
  absl::Status try_case(const KernelEntry& kernel, int index, Trial* trial);
  // The index of the first output that is not the expected one; -1: none.
  absl::StatusOr<int64_t> first_difference(const DeviceMemory& wanted) const;

  const TrialPlace& place_;
  const std::unique_ptr<TrialCases> cases_;
  const KernelEntry& plain_;
  TrialCalls calls_;
  DeviceMemory out_;
  std::vector<DeviceMemory> wanted_;  // One per case.
};

}  // namespace lockstep
