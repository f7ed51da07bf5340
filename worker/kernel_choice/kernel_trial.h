// SPDX-License-Identifier: Apache-2.0
// A trial of one kernel at one shape of a linear or gated_linear, on the device that will run it
// and with the model's own weights. The kernel's outputs are compared with those of linear's plain
// kernel, which is the specification. gated_linear is tried with a function that changes nothing,
// so that an output is the product of two sums.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/system/clock.h"
#include "base/threads/parallel.h"
#include "checkpoint/weight_source.h"
#include "proto/program.pb.h"
#include "worker/host/memory.h"
#include "worker/kernel_choice/error_bound.h"
#include "worker/kernels/device.h"
#include "worker/kernels/kernel.h"
#include "worker/progress.h"
#include "worker/weights/weights.h"

namespace lockstep {

enum class Verdict : uint8_t { kUnproven, kProven, kRefused };

// The result for one number of rows. `ns` is the mean time of a call when several are queued; 0:
// not measured. `error` is the largest error of an output, as a multiple of its bound.
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

// An element of x, exact in every type that x may have. It is the same for all kernels and numbers
// of rows.
float trial_x(int64_t row, int64_t k);

// The device, the source and the options of all trials; outlives them.
struct TrialPlace {
  Device& device;
  const WeightSource& source;
  Parallel& parallel;
  int64_t max_rows = 0;   // Rows of a step.
  bool same_bits = true;  // A row's bits must not depend on the number of rows and columns.
  int64_t (*now_ns)() = steady_now_ns;
  Progress* progress = nullptr;
};

// The trials of one shape, with their operands on the device.
class ShapeTrials {
 public:
  // Computes the expected outputs with `plain`, linear's plain kernel. kResourceExhausted: there is
  // no memory for a trial.
  static absl::StatusOr<std::unique_ptr<ShapeTrials>> make(const TrialPlace& place,
                                                           const LinearShape& shape,
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

  ShapeTrials(const TrialPlace& place, const LinearShape& shape, const program::Weight& weight,
              const KernelEntry& plain);
  absl::Status prepare();
  absl::StatusOr<Weights> load(const KernelEntry& packer) const;
  absl::Status place_operands();
  void measure_norms();
  KernelArgs args(const KernelEntry& kernel, const Weights& weights, int64_t rows,
                  int64_t cols) const;
  // Runs a kernel `times` times and waits. Returns null, or why the kernel could not be queued.
  absl::StatusOr<const char*> call(const KernelEntry& kernel, const KernelArgs& args, int times);
  absl::StatusOr<bool> compute(const KernelEntry& kernel, const Weights& weights, int64_t rows,
                               int64_t cols, Outputs* found, Trial* trial);
  absl::Status time(const KernelEntry& kernel, const Weights& weights, TriedRows* tried);
  absl::Status try_rows(const KernelEntry& kernel, const Weights& weights, int64_t rows,
                        int64_t cols, Outputs* whole, Trial* trial);
  Worst compare(const Outputs& found, const Outputs& sums, bool slices) const;
  Worst compare_bits(const Outputs& found, const Outputs& whole) const;
  template <typename OfRow>
  Worst worst_of(int64_t rows, const OfRow& of_row) const;

  const TrialPlace& place_;
  Device& device_;
  const LinearShape shape_;
  const KernelEntry& plain_;
  program::Program program_;  // Has this weight alone.
  int64_t rows_ = 0;
  int64_t wide_rows_ = 0;  // 0: no step has more than rows_.
  int64_t wide_cols_ = 0;
  std::optional<Weights> plain_weights_;
  DeviceMemory x_, bias_, out_, scratch_;
  std::vector<float> biases_;
  std::vector<double> norms_;  // One per column.
  Outputs wanted_, wide_wanted_;
};

}  // namespace lockstep
