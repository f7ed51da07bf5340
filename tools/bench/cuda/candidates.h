// SPDX-License-Identifier: Apache-2.0
// Checks the answers of the operator top_candidates, which have the same bits on a GPU and a CPU.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep {

// Whether the step's outputs have the answers that the CPU's kernel computes from `logits`, which
// are in the host's memory. The outputs' copies of logits are not compared.
bool has_cpu_candidates(const TensorView& logits, const StepView& step);

}  // namespace lockstep
