// SPDX-License-Identifier: Apache-2.0
// The check of top_candidates, whose kernels all have the same bits.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep {

// Whether the step's outputs have the answers of the CPU's kernel; they need not ask for logits.
// `logits` is in the host's memory.
bool has_cpu_candidates(const TensorView& logits, const StepView& step);

}  // namespace lockstep
