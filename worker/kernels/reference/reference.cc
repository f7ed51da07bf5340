// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/reference/reference.h"

#include <cmath>

#include "base/float16.h"

namespace lockstep::reference {

KernelFn kernel(Op op) {
  switch (op) {
    case Op::kEmbed:
      return embed;
    case Op::kLinear:
      return linear;
    case Op::kRmsNorm:
      return rms_norm;
    case Op::kLayerNorm:
      return layer_norm;
    case Op::kHeadNorm:
      return head_norm;
    case Op::kAddNorm:
      return add_norm;
    case Op::kRopeTable:
      return rope_table;
    case Op::kRope:
      return rope;
    case Op::kAttention:
      return attention;
    case Op::kSilu:
      return silu;
    case Op::kMul:
      return mul;
    case Op::kAdd:
      return add;
    case Op::kGated:
      return gated;
    case Op::kCast:
      return cast;
    case Op::kSelectRows:
      return select_rows;
    case Op::kTopCandidates:
      return top_candidates;
    case Op::kNone:
    case Op::kAllReduce:
    case Op::kAllGather:
    case Op::kColumns:
      return nullptr;
  }
  return nullptr;
}

float element(const TensorView& view, int64_t row, int64_t col) {
  if (const auto kind = quantization(view.dtype)) {
    const auto& rows = *static_cast<const QuantizedRows*>(view.data);
    const int64_t group = kind->group == 0 ? 0 : col / kind->group;
    const int64_t at = row * group_count(*kind, view.cols) + group;
    const auto code = static_cast<float>(rows.codes[row * view.cols + col]);
    const float scale = bf16_to_float(rows.scales[at]);
    return kind->minimum ? std::fma(code, scale, bf16_to_float(rows.minima[at])) : code * scale;
  }
  switch (view.dtype) {
    case DType::kF32:
      return view.row<float>(row)[col];
    case DType::kBF16:
      return bf16_to_float(view.row<uint16_t>(row)[col]);
    case DType::kF16:
      return f16_to_float(view.row<uint16_t>(row)[col]);
    case DType::kI8:
      return view.row<int8_t>(row)[col];
    default:
      return 0;
  }
}

void set_element(const TensorView& view, int64_t row, int64_t col, float value) {
  if (view.dtype == DType::kBF16) {
    view.row<uint16_t>(row)[col] = float_to_bf16(value);
  } else if (view.dtype == DType::kI8) {
    view.row<int8_t>(row)[col] = static_cast<int8_t>(value);
  } else if (view.dtype == DType::kF16) {
    view.row<uint16_t>(row)[col] = float_to_f16(value);
  } else {
    view.row<float>(row)[col] = value;
  }
}

}  // namespace lockstep::reference
