// SPDX-License-Identifier: Apache-2.0
// Rounds rows in groups of 32 columns to int8 codes and a scale, exactly as a linear with quantized
// weights rounds its rows (linear_codes.h): [group][32 codes, float32 scale].
#include "worker/kernels/cpu/chunks.h"
#include "worker/kernels/cpu/pack/quantize.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

template <bool kPower>
const char* round_rows(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  for_rows(*args.parallel, x.rows, x.cols, [&](int64_t r) {
    const float* from = x.row<float>(r);
    RoundedGroup* to = out.rounded_row(r);
    for (int64_t i = 0; i < x.cols; i += kRoundedGroup, ++to) {
      const int64_t n = min(x.cols - i, kRoundedGroup);
      const int32_t largest = largest_magnitude(from + i, n);
      const Scale scale = kPower ? choose_power(largest) : choose_scale(largest);
      round_codes<kRoundedGroup>(from + i, n, scale, to->codes);
      to->scale = scale.valid ? scale.scale : __builtin_nanf("");
    }
  });
  return nullptr;
}

}  // namespace

const char* round_groups(const KernelArgs& args) {
  return args.out[0].dtype == DType::kA8P ? round_rows<true>(args) : round_rows<false>(args);
}

}  // namespace lockstep::LOCKSTEP_ISA
