// SPDX-License-Identifier: Apache-2.0
// out = x * weight^T (+ bias).
#include "worker/kernels/reference/reference.h"

namespace lockstep::reference {

const char* linear(const KernelArgs& args) {
  const TensorView &x = args.in[0], &weight = args.in[1], &bias = args.in[2], &out = args.out[0];
  if (quantization(weight.dtype)) return linear_of_codes(args);
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t n = 0; n < out.cols; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < x.cols; ++k) {
        sum += static_cast<double>(element(x, r, k)) * element(weight, n, k);
      }
      if (bias.data != nullptr) sum += element(bias, 0, n);
      set_element(out, r, n, static_cast<float>(sum));
    }
  }
  return nullptr;
}

}  // namespace lockstep::reference
