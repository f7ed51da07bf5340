// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/cuda/sizes.h"

#include "worker/kernels/cuda/linear/fragments.h"

namespace lockstep::device {

int64_t page_bytes(const PageShape& page) {
  const int64_t scales = page.dtype != DType::kI8 ? 0 : page.v_dim == 0 ? 1 : 2;
  const int64_t bytes = (page.k_dim + page.v_dim) * dtype_bytes(page.dtype) + scales * 4;
  return page.tokens * page.kv_heads * bytes;
}

const char* attention_fits(const OperatorAttrs& operator_attrs, const Device&) {
  const AttentionAttrs& attrs = operator_attrs.attention();
  static_assert(kMaxHeadDim == 1024);  // The text names it.
  if (attrs.head_dim > kMaxHeadDim) return "head_dim up to 1024";
  return attrs.v_dim > kMaxHeadDim ? "v_dim up to 1024" : nullptr;
}

int64_t product_scratch_bytes(const KernelArgs&, int) { return kProductBytes; }

int64_t attention_scratch_bytes(const KernelArgs& largest, int) {
  const AttentionAttrs& attrs = largest.attrs.attention();
  if (!takes_mma(attrs, DType::kBF16) || attrs.heads == 0) return 0;  // It takes more than int8.
  return kMaxParts * part_floats(attrs.head_dim) * static_cast<int64_t>(sizeof(float));
}

int64_t expert_scratch_bytes(const KernelArgs& largest, int) {
  const int64_t routes = largest.out[0].rows;
  return expert_order_bytes(routes) + expert_list_bytes(routes, largest.attrs.expert().experts);
}

int64_t expert_mma_scratch_bytes(const KernelArgs& largest, int threads) {
  return expert_scratch_bytes(largest, threads) +
         largest.out[0].rows * copied_stride(largest.in[0].cols) * 2;
}

int64_t expert_wgmma_scratch_bytes(const KernelArgs& largest, int threads) {
  return expert_scratch_bytes(largest, threads) +
         largest.out[0].rows * units_of(largest.in[0].cols) * kUnitDepth * 2;
}

int64_t candidate_scratch_bytes(const KernelArgs& largest, int) {
  const TensorView& logits = largest.in[0];
  return logits.rows * candidate_keys(slice_count(logits.cols)) * kCandidateKeyBytes;
}

}  // namespace lockstep::device
