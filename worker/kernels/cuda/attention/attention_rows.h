// SPDX-License-Identifier: Apache-2.0
// Attention on tensor cores for steps with few rows, with the bits of attention_mma.cu.
#pragma once

#include "worker/kernels/cuda/attention/attention_tile.h"

namespace lockstep::LOCKSTEP_TARGET {

// Whether attend_rows() takes these operands of attend_mma(). If there are several splits,
// params.parts must have room for them.
bool takes_rows(const TiledAttention& params);

// Each row and split has its own block of threads, which stores the row's output. If params.parts
// is set, the block stores the row's part there instead. T is as in attend_mma().
template <typename T>
const char* attend_rows(const TiledAttention& params, void* queue);

}  // namespace lockstep::LOCKSTEP_TARGET
