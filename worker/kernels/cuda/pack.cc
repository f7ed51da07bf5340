// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/cuda/pack.h"

#include "base/float16.h"

namespace lockstep::device {
namespace {

template <typename T, typename Convert>
void pack_rows(const PackArgs& args, const Convert& convert) {
  for (int64_t r = args.row_begin; r < args.row_end; ++r) {
    const float* from = args.source + (r - args.row_begin) * args.source_stride;
    T* to = static_cast<T*>(args.packed) + r * args.cols;
    for (int64_t k = 0; k < args.cols; ++k) to[k] = convert(from[k]);
  }
}

}  // namespace

void pack_rows_f32(const PackArgs& args) {
  pack_rows<float>(args, [](float x) { return x; });
}
void pack_rows_bf16(const PackArgs& args) { pack_rows<uint16_t>(args, float_to_bf16); }
void pack_rows_f16(const PackArgs& args) { pack_rows<uint16_t>(args, float_to_f16); }

int64_t row_bytes_f32(int64_t rows, int64_t cols) { return rows * cols * 4; }
int64_t row_bytes_16(int64_t rows, int64_t cols) { return rows * cols * 2; }

}  // namespace lockstep::device
