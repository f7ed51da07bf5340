// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/cpu/sizes.h"

#include "worker/kernels/cpu/pages/attention_scratch.h"
#include "worker/kernels/cpu/scratch.h"

namespace lockstep::cpu {

namespace {
int64_t linear_bytes(PanelLayout (*layout)(DType), const KernelArgs& largest, int threads) {
  const TensorView &x = largest.in[0], &weight = largest.in[1];
  return linear_scratch_bytes(layout(weight.dtype), x.rows, x.cols, threads);
}
int64_t expert_bytes(PanelLayout (*layout)(DType), const KernelArgs& largest, int threads) {
  return expert_scratch(layout(largest.in[2].dtype), largest.out[0].rows, largest.in[0].cols,
                        largest.attrs.expert().experts, threads)
      .all;
}
}  // namespace

int64_t panel_scratch_bytes(const KernelArgs& largest, int threads) {
  return linear_bytes(panel_layout, largest, threads);
}
int64_t widened_scratch_bytes(const KernelArgs& largest, int threads) {
  return linear_bytes(widened_layout, largest, threads);
}
int64_t tile_scratch_bytes(const KernelArgs& largest, int threads) {
  const TensorView &x = largest.in[0], &weight = largest.in[1], &out = largest.out[0];
  return tile_linear_scratch_bytes(tile_layout(weight.dtype), x.rows, x.cols, out.cols, threads);
}

int64_t expert_scratch_bytes(const KernelArgs& largest, int threads) {
  return expert_bytes(panel_layout, largest, threads);
}
int64_t expert_widened_scratch_bytes(const KernelArgs& largest, int threads) {
  return expert_bytes(widened_layout, largest, threads);
}

// Few rows are multiplied without tiles, but in the same scratch.
int64_t expert_tile_scratch_bytes(const KernelArgs& largest, int threads) {
  const int64_t tiles = expert_bytes(tile_layout, largest, threads);
  const int64_t panels = expert_scratch_bytes(largest, threads);
  return tiles > panels ? tiles : panels;
}

int64_t attention_scratch_bytes(const KernelArgs& largest, int threads) {
  const AttentionScratch sizes = attention_scratch(largest.attrs.attention());
  return threads * (sizes.thread_bytes + kThreadPartials * sizes.partial_bytes);
}

int64_t page_bytes(const PageShape& page) {
  return page.tokens / kKvChunk * page.kv_heads *
         kv_chunk_bytes(page.k_dim, page.v_dim, page.dtype);
}

int64_t candidate_scratch_bytes(const KernelArgs& largest, int) {
  return largest.in[0].rows * candidate_scratch(largest.in[0].cols).output_bytes;
}

}  // namespace lockstep::cpu
