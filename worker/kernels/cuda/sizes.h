// SPDX-License-Identifier: Apache-2.0
// The memory that .cu kernels' entries need and the attributes that they support, and the constants
// and formulas of that memory's layout.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep::device {

// attention: a page has the keys and values of the first KV head, then those of the next one, and
// so on; int8 pages then have the scales, in the same order. A block has one thread per column of a
// head.
inline constexpr int64_t kMaxHeadDim = 1024;
int64_t page_bytes(const PageShape& page);
const char* attention_fits(const OperatorAttrs& attrs, const Device& device);

// attention on tensor cores: keys are processed in splits of this many positions. The sums of one
// split, for one row and head, are a part: [head_dim] and the two numbers of Softmax. Scratch has
// room for kMaxParts parts; a step that would need more stores no parts.
inline constexpr int kSplitKeys = 256;
inline constexpr int kMaxMmaDim = 256;
inline constexpr int64_t kMaxParts = int64_t{8} << 10;
constexpr int64_t part_floats(int64_t head_dim) { return head_dim + 2; }
// Whether tensor cores compute heads with these attributes over pages of this type (bfloat16 or
// int8); reads no tables. Keys are copied in pieces of 16 bytes.
constexpr bool takes_mma(const AttentionAttrs& attrs, DType pages) {
  return attrs.head_dim * dtype_bytes(pages) % 16 == 0 && attrs.head_dim <= kMaxMmaDim &&
         attrs.v_dim == attrs.head_dim && !attrs.values_in_keys;
}
int64_t attention_scratch_bytes(const KernelArgs& largest, int threads);
// The kernels that an entry for pages of one type may use; all have the same bits. kRows adds
// attention_rows.cu to kMma, kWgmma adds hopper/attention_wgmma.cu to both (bfloat16 only).
enum class AttentionBy { kMma, kRows, kWgmma };
// How hopper/attention_wgmma.cu divides the work among blocks of threads; it changes no bit.
enum class AttentionWork {
  kInTurn,  // A block for each multiprocessor computes one tile and KV head after another.
  kApart    // Each tile and KV head has its own block.
};

// rope_attention: first the queries, rotated and rounded, then attention's scratch. Queries are
// float32 like their pages, else bfloat16.
constexpr int64_t rotated_bytes(const TensorView& q, DType queries) {
  return (q.rows * q.cols * dtype_bytes(queries) + 255) / 256 * 256;
}
template <DType kPages>
int64_t rope_attention_scratch_bytes(const KernelArgs& largest, int threads) {
  if (kPages == DType::kF32) return rotated_bytes(largest.in[0], DType::kF32);
  return rotated_bytes(largest.in[0], DType::kBF16) + attention_scratch_bytes(largest, threads);
}

// linear: the workspace of cuBLASLt's kernels; the best ones on sm_90 need that much. The scratch
// begins with it.
inline constexpr int64_t kProductBytes = int64_t{32} << 20;
int64_t product_scratch_bytes(const KernelArgs& largest, int threads);

// expert_linear: routes sorted by expert, and the number of tiles; then a list of tiles of one
// expert's rows, long enough for the smallest tiles; then, on tensor cores, the rows of x in the
// order of routes.
inline constexpr int64_t kMinExpertTileRows = 8;
struct ExpertTile {
  int32_t expert = 0;
  int32_t begin = 0;  // In the order of routes.
  int32_t rows = 0;
};
constexpr int64_t expert_tile_count(int64_t routes, int64_t experts, int64_t tile_rows) {
  const int64_t tiles = routes / tile_rows + experts;
  return routes < tiles ? routes : tiles;
}
constexpr int64_t expert_order_bytes(int64_t routes) { return ((routes + 1) * 4 + 63) / 64 * 64; }
constexpr int64_t expert_list_bytes(int64_t routes, int64_t experts) {
  const int64_t tiles = expert_tile_count(routes, experts, kMinExpertTileRows);
  return (tiles * static_cast<int64_t>(sizeof(ExpertTile)) + 63) / 64 * 64;
}
int64_t expert_scratch_bytes(const KernelArgs& largest, int threads);
int64_t expert_mma_scratch_bytes(const KernelArgs& largest, int threads);
// The same for wgmma, which copies x as whole units.
int64_t expert_wgmma_scratch_bytes(const KernelArgs& largest, int threads);

// top_candidates: for each output, the best keys of each block of kVocabBlock ids by edited and by
// raw logit, then the best noisy key of each slice of the vocabulary. A slice is this many blocks.
inline constexpr int64_t kSliceBlocks = 16;
inline constexpr int64_t kCandidateKeyBytes = 8;
constexpr int64_t slice_count(int64_t vocab) {
  const int64_t slices = (vocab + kSliceBlocks * kVocabBlock - 1) / (kSliceBlocks * kVocabBlock);
  return slices > 0 ? slices : 1;
}
constexpr int64_t candidate_keys(int64_t slices) { return slices * (2 * kSliceBlocks + 1); }
int64_t candidate_scratch_bytes(const KernelArgs& largest, int threads);

}  // namespace lockstep::device
