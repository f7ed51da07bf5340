// SPDX-License-Identifier: Apache-2.0
// Converts quantized rows to numbers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/numbers/float16.h"
#include "base/numbers/quantization.h"

namespace lockstep {

// Converts each code to code * scale, or code * scale + minimum, in float32. A code has 8 bits and
// a scale 8 significant bits, so their product is exact; only the sum with a minimum is rounded.
inline void dequantize_rows(const Quantization& kind, const QuantizedRows& in, int64_t rows,
                            int64_t cols, float* out, int64_t stride) {
  const int64_t groups = group_count(kind, cols);
  const int64_t size = kind.group == 0 ? cols : kind.group;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t group = 0; group < groups; ++group) {
      const float scale = bf16_to_float(in.scales[row * groups + group]);
      const float minimum = kind.minimum ? bf16_to_float(in.minima[row * groups + group]) : 0.0f;
      const int64_t end = std::min(cols, (group + 1) * size);
      for (int64_t k = group * size; k < end; ++k) {
        const float product = static_cast<float>(in.codes[row * cols + k]) * scale;
        out[row * stride + k] = kind.minimum ? product + minimum : product;
      }
    }
  }
}

}  // namespace lockstep
