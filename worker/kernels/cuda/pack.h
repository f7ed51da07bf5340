// SPDX-License-Identifier: Apache-2.0
// How weights lie in a device's memory: plain rows [N][K]. Packed on the host, then copied.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep::device {

void pack_rows_f32(const PackArgs& args);
void pack_rows_bf16(const PackArgs& args);
void pack_rows_f16(const PackArgs& args);
int64_t row_bytes_f32(int64_t rows, int64_t cols);
int64_t row_bytes_16(int64_t rows, int64_t cols);  // bfloat16 and float16.

}  // namespace lockstep::device
