// SPDX-License-Identifier: Apache-2.0
// What the CPU kernels' entries say of memory: scratch and KV pages, the same for every ISA. How it
// is divided is in scratch.h and attention_scratch.h.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep::cpu {

// linear over panels, and over panels as sixteen registers or tile instructions take them.
int64_t panel_scratch_bytes(const KernelArgs& largest, int threads);
int64_t narrow_scratch_bytes(const KernelArgs& largest, int threads);
int64_t tile_scratch_bytes(const KernelArgs& largest, int threads);

// expert_linear likewise.
int64_t expert_scratch_bytes(const KernelArgs& largest, int threads);
int64_t expert_narrow_scratch_bytes(const KernelArgs& largest, int threads);
int64_t expert_tile_scratch_bytes(const KernelArgs& largest, int threads);

int64_t attention_scratch_bytes(const KernelArgs& largest, int threads);
int64_t page_bytes(const PageShape& page);

int64_t candidate_scratch_bytes(const KernelArgs& largest, int threads);

}  // namespace lockstep::cpu
