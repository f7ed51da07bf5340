// SPDX-License-Identifier: Apache-2.0
// out[i] = x[output_rows[i]]: the rows whose logits are needed.
#include "worker/kernels/cpu/chunks.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {

const char* select_rows(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  const int64_t bytes = dtype_bytes(x.dtype);
  for_rows(*args.parallel, out.rows, out.cols, [&](int64_t i) {
    __builtin_memcpy(out.row<std::byte>(0) + i * out.stride * bytes,
                     x.row<std::byte>(0) + args.step->output_rows[i] * x.stride * bytes,
                     static_cast<size_t>(out.cols * bytes));
  });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA
