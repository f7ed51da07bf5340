// SPDX-License-Identifier: Apache-2.0
// Appends k and v of the step's rows to the layer's pages (not if read_only). Then computes for
// every row and query head: out = sum over keys j of softmax(scale * q . k_j, capped, plus slope *
// distance) v_j. A row sees the keys up to its own position: with a window only the last `window`
// of them, with chunks only the keys of its own chunk. Rows of the sequence's prefix see the whole
// prefix. The head's sink is one more score in the softmax, without a value. Queries are rounded to
// bfloat16 unless pages are float32. rope_attention first rotates k, into the pages, and q, into
// scratch. attention_mma.cu and hopper/attention_wgmma.cu compute the heads whose attributes they
// support. The kernel in this file processes keys in blocks of kKeyBlock from position 0 on, with a
// running maximum and sum, so that bits depend on the position alone. A thread first computes the
// score of one key, then the sum of one column.
#include "worker/kernels/cuda/attention/attention_mma.h"
#include "worker/kernels/cuda/attention/attention_pages.h"
#include "worker/kernels/cuda/hopper/attention_wgmma.h"
#include "worker/kernels/cuda/rows/rotate.h"
#include "worker/kernels/cuda/sizes.h"

namespace lockstep::LOCKSTEP_TARGET {

using device::AttentionBy;
using device::AttentionWork;

namespace {

constexpr int64_t kKeyBlock = 64;
constexpr int64_t kMaxDim = device::kMaxHeadDim;  // One thread per column.

// The place of a row's key for one KV head.
template <typename T>
__device__ T* key_of(const AttentionParams& params, int64_t row, int64_t kv_head) {
  const int64_t position = params.step.positions[row];
  const StepSequence& sequence = params.step.sequences[params.step.sequence_of_row[row]];
  return keys_of<T>(params, sequence, position, kv_head) +
         position % params.state.page_tokens * params.attrs.head_dim;
}

// Stores a key (`side` 0) or value (1) of `dim` numbers. All threads of the block call it.
template <typename T>
__device__ void store_row(const AttentionParams& params, int64_t row, int64_t kv_head, int side,
                          const float* from, int64_t dim, T* to) {
  if constexpr (kIsCode<T>) {
    unsigned long long largest = 0;  // Bits of magnitudes, which have the order of the magnitudes.
    for (int64_t d = threadIdx.x; d < dim; d += blockDim.x) {
      const unsigned long long bits = std::bit_cast<uint32_t>(from[d]) & 0x7fffffff;
      largest = Max::of(largest, bits);
    }
    const float scale = scale_for(static_cast<uint32_t>(over_block<Max>(largest)));
    for (int64_t d = threadIdx.x; d < dim; d += blockDim.x) to[d] = code_of(from[d], scale);
    const int64_t position = params.step.positions[row];
    const StepSequence& sequence = params.step.sequences[params.step.sequence_of_row[row]];
    float* scales = scales_of<T>(params, sequence, position, kv_head, side);
    if (threadIdx.x == 0) scales[position % params.state.page_tokens] = scale;
  } else {
    for (int64_t d = threadIdx.x; d < dim; d += blockDim.x) narrow(from[d], to[d]);
  }
}

template <typename T>
__device__ void append_value(const AttentionParams& params, int64_t row, int64_t kv_head) {
  const int64_t position = params.step.positions[row], v_dim = params.attrs.v_dim;
  const StepSequence& sequence = params.step.sequences[params.step.sequence_of_row[row]];
  T* value = values_of<T>(params, sequence, position, kv_head) +
             position % params.state.page_tokens * v_dim;
  const float* v = params.v.row<float>(row) + kv_head * v_dim;
  store_row(params, row, kv_head, 1, v, v_dim, value);
}

template <typename T>
__global__ void append_kernel(AttentionParams params) {
  const int64_t row = blockIdx.x, kv_head = blockIdx.y, dim = params.attrs.head_dim;
  const float* k = params.k.row<float>(row) + kv_head * dim;
  store_row(params, row, kv_head, 0, k, dim, key_of<T>(params, row, kv_head));
  if (!params.attrs.values_in_keys) append_value<T>(params, row, kv_head);
}

// The type to which queries are rounded.
template <typename T>
using QueryOf = std::conditional_t<std::is_same_v<T, float>, float, BF16>;

// Rotates one head of a row. KV heads have the first numbers: a KV head's key is rotated, and is
// appended with its value. Then come the query heads, which are rotated into `rotated`.
template <typename T>
__global__ void rotate_kernel(AttentionParams params, TensorView table, TensorView rotated) {
  const int64_t row = blockIdx.x, kv_heads = params.attrs.kv_heads, dim = params.attrs.head_dim;
  const float* cos_sin = table.row<float>(row);
  if (blockIdx.y < kv_heads) {
    const int64_t kv_head = blockIdx.y;
    const float* k = params.k.row<float>(row) + kv_head * dim;
    T* key = key_of<T>(params, row, kv_head);
    if constexpr (kIsCode<T>) {
      __shared__ float turned[kMaxDim];
      rotate_head(k, cos_sin, rope_of(params.attrs), turned);
      __syncthreads();
      store_row(params, row, kv_head, 0, turned, dim, key);
    } else {
      rotate_head(k, cos_sin, rope_of(params.attrs), key);
    }
    append_value<T>(params, row, kv_head);
  } else {
    const int64_t begin = (blockIdx.y - kv_heads) * dim;
    rotate_head(params.q.row<float>(row) + begin, cos_sin, rope_of(params.attrs),
                rotated.row<QueryOf<T>>(row) + begin);
  }
}

// The product of a query and one key.
template <typename T>
__device__ float dot(const AttentionParams& params, const StepSequence& sequence, int64_t position,
                     int64_t kv_head, const float* query) {
  const int64_t slot = position % params.state.page_tokens, dim = params.attrs.head_dim;
  const T* key = keys_of<T>(params, sequence, position, kv_head) + slot * dim;
  const float* scale = scales_of<T>(params, sequence, position, kv_head, 0);
  if constexpr (kIsCode<T>) scale += slot;
  float sum = 0;
  for (int64_t d = 0; d < dim; ++d) sum = fmaf(query[d], number_of(key[d], scale), sum);
  return sum;
}

// PV: returns sum + column d of the values at positions [begin, end), each times its probability.
template <typename T>
__device__ float add_pv(const AttentionParams& params, const StepSequence& sequence, int64_t begin,
                        int64_t end, int64_t kv_head, int64_t d, const float* probabilities,
                        float sum) {
  const int64_t tokens = params.state.page_tokens;
  const int64_t stride = value_stride(params);
  for (int64_t at = begin; at < end;) {
    const T* values = values_of<T>(params, sequence, at, kv_head) + d;
    const float* scale = scales_of<T>(params, sequence, at, kv_head, 1);
    const int64_t page_begin = at / tokens * tokens, stop = min(end, page_begin + tokens);
    if constexpr (kIsCode<T>) scale += at - page_begin;
    for (; at < stop; ++at) {
      const float value = number_of(values[(at - page_begin) * stride], scale);
      sum = fmaf(probabilities[at - begin], value, sum);
      if constexpr (kIsCode<T>) ++scale;
    }
  }
  return sum;
}

// An element of q, rounded.
template <typename T>
__device__ float query_of(const TensorView& q, int64_t row, int64_t col) {
  if (q.dtype == DType::kBF16) return widen(q.row<BF16>(row)[col]);
  QueryOf<T> rounded;
  narrow(q.row<float>(row)[col], rounded);
  return widen(rounded);
}

// A block computes one row and query head. The block needs at least kKeyBlock threads, and at least
// one thread per column.
template <typename T>
__global__ void __launch_bounds__(kMaxDim) attend_kernel(AttentionParams params) {
  __shared__ float query[kMaxDim], scores[kKeyBlock];
  const int64_t row = gridDim.x - 1 - blockIdx.x;  // Late rows see the most keys: they are first.
  const int64_t head = blockIdx.y, d = threadIdx.x;
  const int64_t dim = params.attrs.head_dim, v_dim = params.attrs.v_dim;
  const int64_t kv_head = params.attrs.kv_head_of[head], position = params.step.positions[row];
  const int64_t first = first_seen(params.attrs, position);
  const StepSequence& sequence = params.step.sequences[params.step.sequence_of_row[row]];
  if (d < dim) query[d] = query_of<T>(params.q, row, head * dim + d);
  __syncthreads();

  float accumulator = 0, total = 0, highest = -kInfinity;
  const int64_t last = sequence.last_seen(position);
  for (int64_t block = first / kKeyBlock * kKeyBlock; block <= last; block += kKeyBlock) {
    const int64_t begin = max(first, block), end = min(last + 1, block + kKeyBlock);
    const int64_t mine = begin + threadIdx.x, count = end - begin;
    if (mine < end) {
      scores[threadIdx.x] = score_of(params.attrs, head, mine - position,
                                     dot<T>(params, sequence, mine, kv_head, query));
    }
    __syncthreads();
    const float before = highest;
    for (int64_t j = 0; j < count; ++j) highest = Max::of(highest, scores[j]);
    __syncthreads();
    // All scores so far are -inf: their weights are 0, but -inf - -inf would be NaN.
    const float from = highest == -kInfinity ? 0.0f : highest;
    if (mine < end) scores[threadIdx.x] = exp_of(scores[threadIdx.x] - from);
    __syncthreads();
    float block_total = 0;
    for (int64_t j = 0; j < count; ++j) block_total = block_total + scores[j];
    const float shrink = exp_of(before - from);
    total = total * shrink + block_total;
    if (d < v_dim) {
      accumulator =
          add_pv<T>(params, sequence, begin, end, kv_head, d, scores, accumulator * shrink);
    }
    __syncthreads();  // The next block of keys may now overwrite the scores.
  }
  if (params.sinks.data != nullptr) {
    const float sink = params.sinks.row<float>(0)[head], largest = Max::of(highest, sink);
    const float shrink = exp_of(highest - largest);
    accumulator = accumulator * shrink;
    total = total * shrink + exp_of(sink - largest);
  }
  if (d < v_dim) set_element(params.out, row, head * v_dim + d, accumulator / total);
}

template <typename T>
const char* append(const KernelArgs& args) {
  if (args.attrs.attention().read_only) return nullptr;
  return launch(append_kernel<T>, {args.step->rows, args.attrs.attention().kv_heads}, 64,
                args.queue, attention_params(args));
}

// Starts rotate_kernel, and changes `args` to those of plain attention.
template <typename T>
const char* rotate(KernelArgs& args) {
  constexpr DType kQuery = std::is_same_v<T, float> ? DType::kF32 : DType::kBF16;
  const AttentionAttrs& attrs = args.attrs.attention();
  const TensorView& q = args.in[0];
  const TensorView rotated = {args.scratch, q.rows, q.cols, q.cols, kQuery};
  const char* failure = launch(rotate_kernel<T>, {args.step->rows, attrs.kv_heads + attrs.heads},
                               64, args.queue, attention_params(args), args.in[3], rotated);
  args.scratch += device::rotated_bytes(q, kQuery);
  args.in[0] = rotated;
  args.in[3] = args.in[4];
  return failure;
}

template <typename T>
const char* attend(const KernelArgs& args) {
  const AttentionAttrs& attrs = args.attrs.attention();
  const int64_t columns = max(attrs.head_dim, attrs.v_dim);
  const int64_t threads = columns <= kKeyBlock ? kKeyBlock : (columns + kWarp - 1) / kWarp * kWarp;
  return launch(attend_kernel<T>, {args.step->rows, attrs.heads}, static_cast<int>(threads),
                args.queue, attention_params(args));
}

// The type of an element of these pages.
template <DType kPages>
using ElementOf = std::conditional_t<kPages == DType::kI8, Code, BF16>;

template <DType kPages, AttentionBy kBy>
const char* attend_pages(const KernelArgs& args) {
  using T = ElementOf<kPages>;
  if (!device::takes_mma(args.attrs.attention(), kPages)) return attend<T>(args);
  if constexpr (kBy == AttentionBy::kWgmma) {
    return attend_wgmma(args);
  } else {
    return attend_mma<T>(args, kBy == AttentionBy::kRows);
  }
}

}  // namespace

const char* attention_f32(const KernelArgs& args) {
  const char* failure = append<float>(args);
  return failure != nullptr ? failure : attend<float>(args);
}

template <DType kPages, AttentionBy kBy>
const char* attention_by(const KernelArgs& args) {
  const char* failure = append<ElementOf<kPages>>(args);
  return failure != nullptr ? failure : attend_pages<kPages, kBy>(args);
}
template const char* attention_by<DType::kBF16, AttentionBy::kMma>(const KernelArgs& args);
template const char* attention_by<DType::kBF16, AttentionBy::kRows>(const KernelArgs& args);
template const char* attention_by<DType::kBF16, AttentionBy::kWgmma>(const KernelArgs& args);
template const char* attention_by<DType::kI8, AttentionBy::kMma>(const KernelArgs& args);
template const char* attention_by<DType::kI8, AttentionBy::kRows>(const KernelArgs& args);

template <AttentionWork kWork>
const char* attention_wgmma_by(const KernelArgs& args) {
  if (!takes_wgmma(args)) return "wgmma does not take these operands";
  const char* failure = append<BF16>(args);
  return failure != nullptr ? failure : attend_wgmma_by(kWork, args);
}
template const char* attention_wgmma_by<AttentionWork::kInTurn>(const KernelArgs& args);
template const char* attention_wgmma_by<AttentionWork::kApart>(const KernelArgs& args);

const char* rope_attention_f32(const KernelArgs& args) {
  KernelArgs rest = args;
  const char* failure = rotate<float>(rest);
  return failure != nullptr ? failure : attend<float>(rest);
}

template <DType kPages, AttentionBy kBy>
const char* rope_attention_by(const KernelArgs& args) {
  KernelArgs rest = args;
  const char* failure = rotate<ElementOf<kPages>>(rest);
  return failure != nullptr ? failure : attend_pages<kPages, kBy>(rest);
}
template const char* rope_attention_by<DType::kBF16, AttentionBy::kMma>(const KernelArgs& args);
template const char* rope_attention_by<DType::kBF16, AttentionBy::kRows>(const KernelArgs& args);
template const char* rope_attention_by<DType::kBF16, AttentionBy::kWgmma>(const KernelArgs& args);
template const char* rope_attention_by<DType::kI8, AttentionBy::kMma>(const KernelArgs& args);
template const char* rope_attention_by<DType::kI8, AttentionBy::kRows>(const KernelArgs& args);

}  // namespace lockstep::LOCKSTEP_TARGET
