// SPDX-License-Identifier: Apache-2.0
// Values of a step as they were when they were made: for who compares them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/program.pb.h"
#include "worker/kernels/device.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

// What instructions [begin, end) of a run made: kernels' and collectives' outputs, as they were
// before the next one ran.
struct MadeValues {
  struct Made {
    int value = 0;     // Of the program.
    std::string rows;  // Its bytes, row by row without gaps.
  };
  int begin = 0;
  int end = 0;
  std::vector<Made> made;
};

// Appends what this instruction has just made, where it is wanted: `views` begin with its outputs.
// Waits for the device. Errors are the device's.
absl::Status keep_values(const program::Program& program, int instruction,
                         std::span<const TensorView> views, Device& device, MadeValues& values);

}  // namespace lockstep
