// SPDX-License-Identifier: Apache-2.0
// A trial of one kernel at one shape of a linear or gated_linear, on the device that will run it
// and with the model's own weights. The kernel's outputs are compared with those of linear's plain
// kernel, which is the specification. gated_linear is tried with a function that changes nothing,
// so that an output is the product of two sums.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "worker/kernel_choice/trial.h"

namespace lockstep {

// The trials of one shape, with their operands on the device.
class LinearTrials {
 public:
  // Computes the expected outputs with `plain`, linear's plain kernel. kResourceExhausted: there is
  // no memory for a trial.
  static absl::StatusOr<std::unique_ptr<LinearTrials>> make(const TrialPlace& place,
                                                            const TrialShape& shape,
                                                            const program::Weight& weight,
                                                            const KernelEntry& plain);
  // Fills the trial except its shape and kernel. kInternal: the device failed, and the trial has
  // the reason. kResourceExhausted: there is no memory for the trial.
  absl::Status run(const KernelEntry& kernel, Trial* trial);

 private:
  // The largest error of a kernel's output, and its place.
  struct Worst {
    double error = 0;  // In units of the bound.
    int64_t row = 0;
    int64_t col = 0;
  };

  // A matrix of outputs in host memory.
  struct Outputs {
    int64_t rows = 0;
    int64_t cols = 0;
    std::vector<float> at;

    const float* row(int64_t index) const { return at.data() + index * cols; }
  };

  LinearTrials(const TrialPlace& place, const TrialShape& shape, const program::Weight& weight,
               const KernelEntry& plain);
  absl::Status prepare();
  absl::Status place_operands();
  void measure_norms();
  KernelArgs args(const KernelEntry& kernel, const Weights& weights, int64_t rows,
                  int64_t cols) const;
  absl::StatusOr<bool> compute(const KernelEntry& kernel, const Weights& weights, int64_t rows,
                               int64_t cols, Outputs* found, Trial* trial);
  absl::Status try_rows(const KernelEntry& kernel, const Weights& weights, int64_t rows,
                        int64_t cols, Outputs* whole, Trial* trial);
  Worst compare(const Outputs& found, const Outputs& sums, bool slices) const;
  Worst compare_bits(const Outputs& found, const Outputs& whole) const;
  template <typename OfRow>
  Worst worst_of(int64_t rows, const OfRow& of_row) const;

  const TrialPlace& place_;
  Device& device_;
  const TrialShape shape_;
  const KernelEntry& plain_;
  const program::Weight& weight_;
  TrialCalls calls_;
  int64_t rows_ = 0;
  int64_t wide_rows_ = 0;  // 0: no step has more than rows_.
  int64_t wide_cols_ = 0;
  std::optional<Weights> plain_weights_;
  DeviceMemory x_, bias_, out_;
  std::vector<float> biases_;
  std::vector<double> norms_;  // One per column.
  Outputs wanted_, wide_wanted_;
};

}  // namespace lockstep
