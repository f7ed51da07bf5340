// SPDX-License-Identifier: Apache-2.0
// A step's values as they were when they were computed, for comparisons.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/program.pb.h"
#include "worker/kernels/device.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

// The outputs of a run's instructions [begin, end), both kernels and collectives, as they were
// before the next instruction ran.
struct MadeValues {
  struct Made {
    int value = 0;     // Index in the program.
    std::string rows;  // The value's bytes, row by row without gaps.
  };
  int begin = 0;
  int end = 0;
  std::vector<Made> made;
};

// Appends the outputs of `instruction` if it is in [begin, end). `views` begin with its outputs.
// Waits for the device, and returns the device's errors.
absl::Status keep_values(const program::Program& program, int instruction,
                         std::span<const TensorView> views, Device& device, MadeValues& values);

}  // namespace lockstep
