// SPDX-License-Identifier: Apache-2.0
// The places of keys and values in a layer's pages, and how rows are appended.
#pragma once

#include "worker/kernels/cpu/attention/values_of_keys.h"
#include "worker/kernels/cpu/pages/attention_scratch.h"
#include "worker/kernels/cpu/pages/kv_format.h"

namespace lockstep::LOCKSTEP_ISA {

// Within each run of this many pages, one KV head's chunks are contiguous. A sequence's pages are
// mostly neighbours, so its keys are long runs of memory, which suit prefetchers.
constexpr int64_t kRunPages = 16;

template <typename F>
struct AttentionJob {
  const KernelArgs& args;
  const AttentionAttrs& attrs;
  int64_t k_padded;
  int64_t v_padded;
  int64_t v_stride;
  int64_t chunk_bytes;
  int page_shift;      // A page has 1 << page_shift chunks.
  float max_factor;    // The largest query code for which sums of k_padded products fit 31 bits.
  const float* sinks;  // [heads], or null.

  explicit AttentionJob(const KernelArgs& kernel_args)
      : args(kernel_args),
        attrs(args.attrs.attention()),
        k_padded(padded_dim(attrs.head_dim)),
        v_padded(padded_dim(attrs.v_dim)),
        v_stride(value_stride(attrs)),
        chunk_bytes(kv_chunk_bytes(attrs.head_dim, attrs.values_in_keys ? 0 : attrs.v_dim,
                                   args.state.dtype)),
        page_shift(__builtin_ctzll(static_cast<uint64_t>(args.state.page_tokens / kChunk))),
        max_factor(static_cast<float>(min(32767, 0x7fffffff / 128 / k_padded))),
        sinks(static_cast<const float*>(args.in[3].data)) {}

  typename F::Element* chunk(const StepSequence& sequence, int64_t position,
                             int64_t kv_head) const {
    const int64_t number = position / kChunk, page = sequence.pages[number >> page_shift];
    const int64_t run = page / kRunPages * kRunPages;
    const int64_t in_run = kv_head * min(kRunPages, args.state.pages - run) + page - run;
    const int64_t in_page = number & ((1 << page_shift) - 1);
    return reinterpret_cast<typename F::Element*>(args.state.data + run * args.state.page_bytes +
                                                  ((in_run << page_shift) + in_page) * chunk_bytes);
  }
};

// The keys of a KV head that some queries see, from `first` to `last`, and their places. Also a
// buffer for a block's values if values are in the keys.
template <typename F>
struct VisibleKeys {
  const AttentionJob<F>& job;
  const StepSequence& sequence;
  int64_t kv_head;
  int64_t first;
  int64_t last;
  typename F::Element* values;  // Null if values are not in the keys.

  // A chunk that no query sees may be in a page that is already freed. So the block has the address
  // of a chunk that is seen instead.
  KeyBlock<F> block(int64_t begin) const {
    KeyBlock<F> found;
    found.v_stride = job.v_stride;
    for (int64_t i = 0; i < kBlockChunks; ++i) {
      const int64_t position = min(max(begin + i * kChunk, first), last);
      found.keys[i] = job.chunk(sequence, position, kv_head);
      found.values[i] = values == nullptr ? found.keys[i] + part_elements<F>(job.k_padded)
                                          : values + i * part_elements<F>(job.v_stride);
    }
    return found;
  }
  // Extracts values of the block at `begin` from its keys, for chunks that some query sees.
  void take_values(const KeyBlock<F>& block, int64_t begin) const {
    for (int64_t i = 0; i < kBlockChunks; ++i) {
      const int64_t position = begin + i * kChunk;
      if (position > last || position + kChunk <= first) continue;
      values_of_keys<F>(block.keys[i], job.k_padded, values + i * part_elements<F>(job.v_stride),
                        job.v_padded, job.v_stride);
    }
  }
};

// Stores a key or a value of `dim` columns in its slot; at(d) is the index of column d in `to`.
template <typename F, typename At>
float store_row(const float* x, int64_t dim, int64_t padded, typename F::Element* to,
                const At& at) {
  const float scale = F::scale_of(x, dim, F::kMaxCode);
  for (int64_t d = 0; d < padded; d += Vec::kLanes) {
    typename F::Element elements[Vec::kLanes];
    F::encode(Vec::load(x + d, dim - d), scale, elements);
    for (int64_t i = 0; i < Vec::kLanes; ++i) to[at(d + i)] = elements[i];
  }
  return scale;
}

template <typename F>
void append_row(const AttentionJob<F>& job, int64_t row) {
  const KernelArgs& args = job.args;
  const AttentionAttrs& attrs = job.attrs;
  const StepView& step = *args.step;
  const int64_t position = step.positions[row], slot = position % kChunk;
  const StepSequence& sequence = step.sequences[step.sequence_of_row[row]];
  for (int64_t head = 0; head < attrs.kv_heads; ++head) {
    typename F::Element* keys = job.chunk(sequence, position, head);
    typename F::Element* values = keys + part_elements<F>(job.k_padded);
    [[maybe_unused]] float k_scale =
        store_row<F>(args.in[1].row<float>(row) + head * attrs.head_dim, attrs.head_dim,
                     job.k_padded, keys, [&](int64_t d) { return key_at<F>(slot, d); });
    if (!attrs.values_in_keys) {
      [[maybe_unused]] const float v_scale =
          store_row<F>(args.in[2].row<float>(row) + head * attrs.v_dim, attrs.v_dim, job.v_padded,
                       values, [&](int64_t d) { return value_at<F>(slot, d, job.v_stride); });
      if constexpr (F::kScaled) {
        scales_of(values, job.v_stride)[slot] = v_scale;
        k_scale = k_scale + v_scale * 0;  // A NaN value makes the score NaN.
      }
    }
    if constexpr (F::kScaled) scales_of(keys, job.k_padded)[slot] = k_scale;
  }
}

}  // namespace lockstep::LOCKSTEP_ISA
