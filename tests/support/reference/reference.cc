// SPDX-License-Identifier: Apache-2.0
#include "tests/support/reference/reference.h"

#include <cmath>

#include "base/numbers/float16.h"

namespace lockstep::reference {

// The functions of plain operators are declared only here: callers use kernel().
#define LOCKSTEP_PLAIN_OP(number, constant, message, word) const char* word(const KernelArgs& args);
#include "operators/ops.inc"
const char* embed(const KernelArgs& args);
const char* linear(const KernelArgs& args);
const char* gated_linear(const KernelArgs& args);
const char* expert_linear(const KernelArgs& args);
const char* rope_table(const KernelArgs& args);
const char* attention(const KernelArgs& args);
const char* rope_attention(const KernelArgs& args);
const char* round_groups(const KernelArgs& args);
const char* top_candidates(const KernelArgs& args);

namespace {

struct Row {
  Op op = Op::kNone;
  KernelFn run = nullptr;
};

constexpr auto kKernels = table_by_op<Row>({
#define LOCKSTEP_PLAIN_OP(number, constant, message, word) {Op::constant, word},
#include "operators/ops.inc"
    {Op::kEmbed, embed},
    {Op::kLinear, linear},
    {Op::kGatedLinear, gated_linear},
    {Op::kExpertLinear, expert_linear},
    {Op::kRopeTable, rope_table},
    {Op::kAttention, attention},
    {Op::kRopeAttention, rope_attention},
    {Op::kRoundGroups, round_groups},
    {Op::kTopCandidates, top_candidates},
});

}  // namespace

KernelFn kernel(Op op) { return kKernels[static_cast<size_t>(op)].run; }

float element(const TensorView& view, int64_t row, int64_t col) {
  if (const auto kind = quantization(view.dtype)) {
    const auto& rows = *static_cast<const QuantizedRows*>(view.data);
    const int64_t group = kind->group == 0 ? 0 : col / kind->group;
    const int64_t at = row * group_count(*kind, view.cols) + group;
    const auto code = static_cast<float>(rows.codes[row * view.cols + col]);
    const float scale = bf16_to_float(rows.scales[at]);
    return kind->minimum ? std::fma(code, scale, bf16_to_float(rows.minima[at])) : code * scale;
  }
  if (is_rounded(view.dtype)) {
    const RoundedGroup& group = view.rounded_row(row)[col / kRoundedGroup];
    return static_cast<float>(group.codes[col % kRoundedGroup]) * group.scale;
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
