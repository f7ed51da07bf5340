// SPDX-License-Identifier: Apache-2.0
// A trial of one attention kernel with one instruction's attributes, on the device that will run
// it. Several sequences, short and long, have one row each, and there are two prompts. Pages and
// operands hold numbers of trial_x(). The outputs must have the same bits as those of the table's
// last attention kernel.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "operators/attributes.h"
#include "proto/program.pb.h"
#include "worker/host/memory.h"
#include "worker/kernel_choice/kernel_trial.h"
#include "worker/kernels/device_step.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

class AttentionTrials {
 public:
  // Computes the expected outputs with `plain`. kResourceExhausted: there is no memory for a trial.
  // kFailedPrecondition: `plain` cannot run.
  static absl::StatusOr<std::unique_ptr<AttentionTrials>> make(
      const TrialPlace& place, const program::Program& program,
      const program::Instruction& instruction, const KernelEntry& plain);
  // Like ShapeTrials::run().
  absl::Status run(const KernelEntry& kernel, Trial* trial);

 private:
  // The last rows of neighbouring sequences, from sequence `first` on: one row of each, or the rows
  // of the two prompts. `count` is the number of these rows.
  struct Case {
    int64_t first;
    int64_t count;
    bool prompts = false;
  };
  using Bits = std::vector<uint32_t>;

  AttentionTrials(const TrialPlace& place, const program::Program& program,
                  const program::Instruction& instruction);
  std::vector<Case> cases() const;
  int64_t max_rows() const;
  absl::Status prepare(const KernelEntry& plain);
  absl::StatusOr<DeviceMemory> on_device(const std::vector<std::byte>& bytes);
  absl::StatusOr<DeviceMemory> filled(int64_t elements, DType dtype, int64_t seed);
  absl::StatusOr<DeviceMemory> filled_with_codes(int64_t scales, int64_t seed);
  absl::Status place_lists();
  KernelArgs args(const Case& rows) const;
  // Queues `times` calls and waits. Null, or why a call could not be queued.
  absl::StatusOr<const char*> call(const KernelEntry& kernel, const Case& rows, int times);
  absl::Status compute(const KernelEntry& kernel, const Case& rows, Bits* found, Trial* trial);
  absl::Status time(const KernelEntry& kernel, const Case& rows, TriedRows* tried);
  absl::Status try_case(const KernelEntry& kernel, const Case& rows, const Bits& wanted,
                        Trial* trial);

  const TrialPlace& place_;
  Device& device_;
  const Op op_;
  const DType x_type_;
  const bool has_sinks_;
  const int64_t prompt_rows_;  // The rows of both prompts; 0: a step has too few.
  OperatorAttrs attrs_;
  StateView pages_;
  DeviceStep step_;
  std::vector<int64_t> lengths_;  // The sequences' lengths; the prompts are last.
  std::vector<std::vector<int32_t>> page_numbers_;
  DeviceMemory q_, k_, v_, table_, sinks_, out_, page_memory_, lists_, scratch_;
  std::vector<Bits> wanted_;  // One per case.
};

}  // namespace lockstep
