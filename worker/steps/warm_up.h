// SPDX-License-Identifier: Apache-2.0
// Steps of meaningless rows, run before a worker reports its room. On a GPU the first use of a
// kernel costs time and memory: a library finds an algorithm, the driver loads code.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "proto/program.pb.h"
#include "worker/kernel_choice/bindings.h"
#include "worker/steps/executor.h"

namespace lockstep {

// For each of `rows` runs a step with that many, or with the program's limit. This rank runs its
// kernels alone: it meets no peer, so values are wrong, but in bounds. Memory for state is
// allocated meanwhile. Each kernel adds to `progress` of loading, unless that is null: the first
// use of one may take seconds. Afterwards the executor needs its own collective and state. Errors
// come from a kernel or the device.
absl::Status warm_up(const program::Program& program, const Bindings& bindings, Device& device,
                     std::span<const int64_t> rows, Progress* progress, Executor& executor);

}  // namespace lockstep
