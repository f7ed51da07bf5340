// SPDX-License-Identifier: Apache-2.0
// A trial of one kernel at one shape, on the device that will run it: its result, its operands, and
// how the kernel is called.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/system/clock.h"
#include "base/threads/parallel.h"
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
  TrialShape shape;
  std::string kernel;
  Verdict verdict = Verdict::kUnproven;
  std::string problem = {};  // Why it is not proven.
  std::vector<TriedRows> rows = {};

  void refuse(std::string why) {
    verdict = Verdict::kRefused;
    problem = std::move(why);
  }
};

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

// An element of an operand, exact in every type that operands have. It is the same for all kernels
// and numbers of rows.
float trial_x(int64_t row, int64_t k);
// Rows of trial_x() on the device, from `first_row` on.
absl::StatusOr<DeviceMemory> trial_numbers(const TrialPlace& place, int64_t first_row, int64_t rows,
                                           int64_t cols, DType dtype);
// A weight on the device, in the layout of the kernel `packer`.
absl::StatusOr<Weights> trial_weights(const TrialPlace& place, const WeightSource& source,
                                      const program::Weight& weight, const KernelEntry& packer);

// Calls kernels, with scratch of its own. A call whose `step` is null gets a step that has only a
// number of rows. Errors: kInternal, the device failed.
class TrialCalls {
 public:
  explicit TrialCalls(const TrialPlace& place) : place_(place) {}

  // Allocates the scratch for calls up to the largest one.
  absl::Status reserve(const KernelEntry& kernel, const KernelArgs& largest);
  // Clears `out`, so that unwritten outputs are wrong, and runs the kernel. False: the kernel could
  // not be queued, and the trial has the reason.
  absl::StatusOr<bool> compute(const KernelEntry& kernel, const KernelArgs& args,
                               const DeviceMemory& out, Trial* trial);
  // Sets the mean time of up to `max_calls` calls.
  absl::Status time(const KernelEntry& kernel, const KernelArgs& args, int64_t max_calls,
                    TriedRows* tried);

 private:
  // Runs a kernel `times` times and waits. Null, or why the kernel could not be queued.
  absl::StatusOr<const char*> call(const KernelEntry& kernel, const KernelArgs& args,
                                   int64_t times);

  const TrialPlace& place_;
  DeviceMemory scratch_;
};

// Refuses the kernel if `status` says that the device failed while it ran. Returns the status.
absl::Status blame(const absl::Status& status, int64_t rows, Trial* trial);

}  // namespace lockstep
