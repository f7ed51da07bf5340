// SPDX-License-Identifier: Apache-2.0
// Steps that mean nothing, run before a worker says what it has room for. On a GPU the first use of
// a kernel costs time and memory: a library finds an algorithm, the driver loads code.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "proto/program.pb.h"
#include "worker/kernel_choice/bindings.h"
#include "worker/steps/executor.h"

namespace lockstep {

// For each of `rows` a step with as many, or as many as the program's limits allow. This rank runs
// its kernels alone: no peer is met, so that values are not what they would be, but in bounds.
// Memory for state is taken meanwhile. Each kernel adds to `progress` of loading, unless that is
// null: the first use of one may take seconds. The executor wants a collective and a state of its
// own afterwards. An error is a kernel's or the device's.
absl::Status warm_up(const program::Program& program, const Bindings& bindings, Device& device,
                     std::span<const int64_t> rows, Progress* progress, Executor& executor);

}  // namespace lockstep
