// SPDX-License-Identifier: Apache-2.0
// Rotates every pair (a, b) of a head's rotary_dim columns from `offset` on by its row's angle:
// a' = a cos - b sin, b' = b cos + a sin. Pairs are (i, i + rotary_dim / 2), or (2i, 2i + 1)
// if interleaved. The rest of a head is copied. The table's row is rotary_dim / 2 cosines, then
// rotary_dim / 2 sines. There is one block per head, and one thread per pair. `out` may be `x`. The
// bits are the CPU's.
#include "worker/kernels/cuda/rows/rotate.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

__global__ void rope_kernel(TensorView x, TensorView table, TensorView out, RopeAttrs attrs) {
  const int64_t row = blockIdx.x, begin = blockIdx.y * attrs.head_dim;
  rotate_head(x.row<float>(row) + begin, table.row<float>(row), attrs, out.row<float>(row) + begin);
}

}  // namespace

const char* rope(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  if (x.cols <= 0) return nullptr;
  return launch(rope_kernel, {x.rows, x.cols / args.attrs.rope().head_dim}, 64, args.queue, x,
                args.in[1], args.out[0], args.attrs.rope());
}

}  // namespace lockstep::LOCKSTEP_TARGET
