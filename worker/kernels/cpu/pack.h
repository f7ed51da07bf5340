// SPDX-License-Identifier: Apache-2.0
// How weights lie in memory for the CPU kernels, the same for every ISA.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep::cpu {

// linear: panels [N / 32][K][32], the last one filled up with zeros.
int64_t panel_bytes_f32(int64_t rows, int64_t cols);
int64_t panel_bytes_bf16(int64_t rows, int64_t cols);
void pack_panels_f32(const PackArgs& args);
void pack_panels_bf16(const PackArgs& args);

// embed: plain rows.
int64_t row_bytes_f32(int64_t rows, int64_t cols);
int64_t row_bytes_bf16(int64_t rows, int64_t cols);
void pack_rows_f32(const PackArgs& args);
void pack_rows_bf16(const PackArgs& args);

}  // namespace lockstep::cpu
