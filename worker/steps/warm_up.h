// SPDX-License-Identifier: Apache-2.0
// Steps of meaningless rows, run before a worker counts its KV pages. On a GPU the first use of a
// kernel costs time and memory: a library finds an algorithm, the driver loads code.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "proto/program.pb.h"
#include "worker/kernel_choice/bindings.h"
#include "worker/steps/executor.h"

namespace lockstep {

// For each number in `rows` runs a step with that many rows, or with the program's limit if that is
// lower. Collectives do nothing, so values are wrong, but in bounds. A small state is allocated for
// these steps. Each kernel adds 1 to `load` of `progress`, which may be null: a kernel's first use
// may take seconds. Afterwards the executor needs use() of a state and of a collective. Errors come
// from a kernel or the device.
absl::Status warm_up(const program::Program& program, const Bindings& bindings, Device& device,
                     std::span<const int64_t> rows, Progress* progress, Executor& executor);

}  // namespace lockstep
