// SPDX-License-Identifier: Apache-2.0
// The cases of an attention with one instruction's attributes: several sequences, short and long,
// have one row each, and there are two prompts. Pages and operands hold numbers of trial_x().
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "operators/attributes.h"
#include "proto/program.pb.h"
#include "worker/kernel_choice/same_bits_trial.h"
#include "worker/kernels/device_step.h"

namespace lockstep {

class AttentionCases final : public TrialCases {
 public:
  // `plain` decides the size of a page. kResourceExhausted: there is no memory for a trial.
  static absl::StatusOr<std::unique_ptr<AttentionCases>> make(
      const TrialPlace& place, const program::Program& program,
      const program::Instruction& instruction, const KernelEntry& plain);

  int count() const override { return static_cast<int>(cases_.size()); }
  KernelArgs args(int index) const override;
  absl::StatusOr<StepView*> step(int index) override;
  bool is_timed(int) const override { return true; }

 private:
  // The last rows of neighbouring sequences, from sequence `first` on: one row of each, or the rows
  // of the two prompts. `count` is the number of these rows.
  struct Case {
    int64_t first;
    int64_t count;
    bool prompts = false;
  };

  AttentionCases(const TrialPlace& place, const program::Program& program,
                 const program::Instruction& instruction);
  absl::Status prepare(const KernelEntry& plain);
  absl::StatusOr<DeviceMemory> pages_of_codes(int64_t scales);
  absl::Status place_lists();

  const TrialPlace& place_;
  Device& device_;
  const Op op_;
  const DType x_type_;
  const bool has_sinks_;
  OperatorAttrs attrs_;
  StateView pages_;
  DeviceStep step_;
  std::vector<Case> cases_;
  std::vector<int64_t> lengths_;  // The sequences' lengths; the prompts are last.
  std::vector<std::vector<int32_t>> page_numbers_;
  DeviceMemory q_, k_, v_, table_, sinks_, page_memory_, lists_;
};

}  // namespace lockstep
