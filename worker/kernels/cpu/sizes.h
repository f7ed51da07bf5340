// SPDX-License-Identifier: Apache-2.0
// The memory that the CPU kernels' entries need: scratch and KV pages, the same for every ISA.
// scratch.h and attention_scratch.h have its layout.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep::cpu {

// The scratch of linear: for most kernels, for kernels that widen x, and for kernels with tile
// instructions.
int64_t panel_scratch_bytes(const KernelArgs& largest, int threads);
int64_t widened_scratch_bytes(const KernelArgs& largest, int threads);
int64_t tile_scratch_bytes(const KernelArgs& largest, int threads);

// The same for expert_linear.
int64_t expert_scratch_bytes(const KernelArgs& largest, int threads);
int64_t expert_widened_scratch_bytes(const KernelArgs& largest, int threads);
int64_t expert_tile_scratch_bytes(const KernelArgs& largest, int threads);

int64_t attention_scratch_bytes(const KernelArgs& largest, int threads);
int64_t page_bytes(const PageShape& page);

int64_t candidate_scratch_bytes(const KernelArgs& largest, int threads);

}  // namespace lockstep::cpu
