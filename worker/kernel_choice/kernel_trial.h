// SPDX-License-Identifier: Apache-2.0
// One kernel at one shape of a linear or gated_linear, tried on the device where it is to run and
// on the model's own weights: beside linear's plain kernel, which is the specification.
// gated_linear is tried with a function that changes nothing, so that an output is the product of
// two sums.
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

// What one number of rows came to. `ns` is that of a call among several in the queue; 0: nobody
// looked. The error is in parts of its bound.
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

// A number of x, exact in every type that x may have: alike for all kernels and numbers of rows.
float trial_x(int64_t row, int64_t k);

// What trials of all shapes share; outlives them.
struct TrialPlace {
  Device& device;
  const WeightSource& source;
  Parallel& parallel;
  int64_t most_rows = 0;  // Of a step.
  bool same_bits = true;  // A row's bits may not depend on how many rows and columns there are.
  int64_t (*now_ns)() = steady_now_ns;
  Progress* progress = nullptr;
};

// The trials of one shape, which has the operands on the device meanwhile.
class ShapeTrials {
 public:
  virtual ~ShapeTrials() = default;
  // Computes what is wanted by `plain`, linear's plain kernel. kResourceExhausted: there is no room
  // for a trial.
  static absl::StatusOr<std::unique_ptr<ShapeTrials>> make(const TrialPlace& place,
                                                           const LinearShape& shape,
                                                           const program::Weight& weight,
                                                           const KernelEntry& plain);
  // Fills the trial but for its shape and kernel. kInternal: the device failed, and the trial says
  // so; kResourceExhausted: as above.
  virtual absl::Status run(const KernelEntry& kernel, Trial* trial) = 0;
};

}  // namespace lockstep
