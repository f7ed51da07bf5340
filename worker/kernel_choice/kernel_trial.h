// SPDX-License-Identifier: Apache-2.0
// A trial of one kernel at one shape of a linear or gated_linear, on the device that will run it
// and with the model's own weights. It compares with linear's plain kernel, which is the
// specification. gated_linear is tried with a function that changes nothing, so that an output is
// the product of two sums.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/system/clock.h"
#include "base/threads/parallel.h"
#include "checkpoint/weight_source.h"
#include "proto/program.pb.h"
#include "worker/kernel_choice/error_bound.h"
#include "worker/kernels/device.h"
#include "worker/kernels/kernel.h"
#include "worker/progress.h"

namespace lockstep {

enum class Verdict : uint8_t { kUnproven, kProven, kRefused };

// The result for one number of rows. `ns` is the time of a call among several in the queue; 0: not
// measured. The error is in units of its bound.
struct TriedRows {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t ns = 0;
  double error = 0;
};

struct Trial {
  LinearShape shape;
  std::string kernel;
  Verdict verdict = Verdict::kUnproven;
  std::string problem = {};  // Why it is not proven.
  std::vector<TriedRows> rows = {};
};

// A number of x, exact in every type that x may have: the same for all kernels and numbers of rows.
float trial_x(int64_t row, int64_t k);

// Trials of all shapes share this. It outlives them.
struct TrialPlace {
  Device& device;
  const WeightSource& source;
  Parallel& parallel;
  int64_t most_rows = 0;  // Rows of a step.
  bool same_bits = true;  // A row's bits may not depend on the number of rows and columns.
  int64_t (*now_ns)() = steady_now_ns;
  Progress* progress = nullptr;
};

// The trials of one shape. It holds the operands on the device.
class ShapeTrials {
 public:
  virtual ~ShapeTrials() = default;
  // Computes the expected outputs with `plain`, linear's plain kernel. kResourceExhausted: there is
  // no memory for a trial.
  static absl::StatusOr<std::unique_ptr<ShapeTrials>> make(const TrialPlace& place,
                                                           const LinearShape& shape,
                                                           const program::Weight& weight,
                                                           const KernelEntry& plain);
  // Fills the trial except its shape and kernel. kInternal: the device failed, and the trial has
  // the reason; kResourceExhausted: as above.
  virtual absl::Status run(const KernelEntry& kernel, Trial* trial) = 0;
};

}  // namespace lockstep
