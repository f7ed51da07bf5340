// SPDX-License-Identifier: Apache-2.0
// For every output, as its OutputSpec requests: block sums, the noisy winner (the token with the
// largest edited logit plus noise), the best by edited and by raw logit, and a copy of the logits.
// Everything has the CPU's bits.
// A key has 64 bits: the value's bits changed so that they order as unsigned numbers, then the id's
// complement. So no two keys are equal, and a larger one is a better candidate (NaN counts as the
// lowest value). One kernel processes slices of the vocabulary: sums, copies and the slice's best
// noisy key, kept in scratch. Another reads a whole row twice: it finds the key of the last
// candidate that is needed, eight bits at a time, then gathers all keys that are not below it and
// sorts those few.
#include "base/numbers/noise.h"
#include "worker/kernels/cuda/scalar.h"
#include "worker/kernels/cuda/sizes.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

using Key = unsigned long long;  // 0: no candidate.
static_assert(sizeof(Key) == device::kCandidateKeyBytes);

using device::kSliceBlocks;

// Threads that share a block of the vocabulary, as the lanes of a CPU's vector do.
constexpr int kLanes = 16;
constexpr int kEach = kVocabBlock / kLanes;
constexpr int kSliceThreads = 256;
constexpr int kSelectThreads = 512;
constexpr int kDigit = 256;

enum class By : uint8_t { kEdited, kRaw };

// One output: its request and its logits.
struct OutputTask {
  const OutputSpec& request;
  const float* logits;
  int64_t vocab_begin;
  int64_t cols;
};

__device__ OutputTask output_at(const TensorView& logits, const StepView& step, int64_t index,
                                int64_t vocab_begin) {
  return {step.outputs[index], logits.row<float>(index), vocab_begin, logits.cols};
}

__device__ Key key_of(float value, int32_t id) {
  uint32_t order = 0;
  if (value == value) {
    const auto bits = std::bit_cast<uint32_t>(value == 0.0f ? 0.0f : value);  // -0 equals 0.
    order = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  }
  return static_cast<Key>(order) << 32 | ~static_cast<uint32_t>(id);
}
__device__ int32_t id_of(Key key) { return static_cast<int32_t>(~static_cast<uint32_t>(key)); }

__device__ bool is_allowed(const OutputSpec& request, int32_t id) {
  return request.mask == nullptr || (request.mask[id / 64] >> (id % 64) & 1) != 0;
}

// A logit after edits, temperature and mask.
__device__ float edited_logit(const OutputSpec& request, int32_t id, float x) {
  int64_t low = 0, high = request.edit_count;  // The first edit of an id >= ours.
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (request.edits[middle].id < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; low < request.edit_count && request.edits[low].id == id; ++low) {
    const LogitEdit edit = request.edits[low];
    x = x > 0 ? x / edit.repetition : x * edit.repetition;
    x = x + edit.add;
  }
  if (request.temperature > 0) x = x / request.temperature;
  return is_allowed(request, id) ? x : -kInfinity;
}

__device__ float noisy_value(const OutputSpec& request, int32_t id, float edited) {
  if (!(request.temperature > 0)) return edited;
  return edited + exact::gumbel_noise(request.seed, request.position, id);
}

__device__ Candidate candidate(const OutputTask& output, int32_t id) {
  const float raw = output.logits[id - output.vocab_begin];
  const float edited = edited_logit(output.request, id, raw);
  return {id, raw, edited, noisy_value(output.request, id, edited)};
}

// The sum over a block of kVocabBlock values, kEach per lane, in the CPU order. NaN counts as -inf.
__device__ BlockSum block_sum(const float (&values)[kEach]) {
  float max_here = -kInfinity;
  for (const float x : values) max_here = x == x ? Max::of(max_here, x) : max_here;
  const float max = over_lanes<Max, kLanes>(max_here);
  float e[kEach];
  for (int j = 0; j < kEach; ++j) {
    e[j] =
        max == -kInfinity ? 0.0f : exp_of((values[j] == values[j] ? values[j] : -kInfinity) - max);
  }
  return {max, over_lanes<Sum, kLanes>((e[0] + e[1]) + (e[2] + e[3]))};
}

// Slice blockIdx.x of output blockIdx.y: groups of kLanes threads process blocks of the vocabulary.
__global__ void slice_kernel(TensorView logits, StepView step, int64_t vocab_begin, Key* best) {
  const OutputTask output = output_at(logits, step, blockIdx.y, vocab_begin);
  const OutputSpec& request = output.request;
  const int64_t lane = threadIdx.x % kLanes, first = int64_t{blockIdx.x} * kSliceBlocks;
  Key winner = 0;
  for (int64_t b = threadIdx.x / kLanes; b < kSliceBlocks; b += kSliceThreads / kLanes) {
    const int64_t begin = (first + b) * kVocabBlock;  // May be after the end: the block is empty.
    float raw[kEach], edited[kEach];
    for (int j = 0; j < kEach; ++j) {
      const int64_t i = begin + j * kLanes + lane;
      raw[j] = edited[j] = -kInfinity;
      if (i >= output.cols) continue;
      const auto id = static_cast<int32_t>(vocab_begin + i);
      raw[j] = output.logits[i];
      edited[j] = edited_logit(request, id, raw[j]);
      if (request.logits != nullptr) request.logits[i] = raw[j];
      if (request.want_noisy && is_allowed(request, id)) {
        winner = Max::of(winner, key_of(noisy_value(request, id, edited[j]), id));
      }
    }
    const BlockSum edited_sum = block_sum(edited), raw_sum = block_sum(raw);
    if (lane != 0 || begin >= output.cols) continue;
    if (request.edited_sums != nullptr) request.edited_sums[first + b] = edited_sum;
    if (request.raw_sums != nullptr) request.raw_sums[first + b] = raw_sum;
  }
  winner = over_block<Max>(winner);
  if (threadIdx.x == 0) best[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = winner;
}

__device__ Key key_at(const OutputTask& output, By by, int64_t i) {
  const auto id = static_cast<int32_t>(output.vocab_begin + i);
  if (by == By::kRaw) return key_of(output.logits[i], id);
  if (!is_allowed(output.request, id)) return 0;
  return key_of(edited_logit(output.request, id, output.logits[i]), id);
}
__device__ Key key_of(const Candidate& c, By by) {
  return key_of(by == By::kRaw ? c.logit : c.edited, c.id);
}

// The `wanted`-th largest key of a row, `wanted` > 0; 1 if there are fewer. Digit by digit, from
// the highest on, it counts how many of the keys that begin with the digits found so far have each
// value of the next digit.
__device__ Key last_wanted(const OutputTask& output, By by, int64_t wanted) {
  __shared__ int counts[kDigit];
  __shared__ int digit, above;
  Key found = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    const Key known = shift == 56 ? 0 : ~Key{0} << (shift + 8);
    for (unsigned i = threadIdx.x; i < kDigit; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < output.cols; i += blockDim.x) {
      const Key key = key_at(output, by, i);
      if (key == 0 || (key & known) != found) continue;
      atomicAdd(&counts[key >> shift & (kDigit - 1)], 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      above = 0;  // The number of keys with a larger digit.
      for (digit = kDigit - 1; digit >= 0 && above + counts[digit] < wanted; --digit) {
        above += counts[digit];
      }
    }
    __syncthreads();
    if (digit < 0) return 1;  // Fewer keys than `wanted`.
    found |= static_cast<Key>(digit) << shift;
    wanted -= above;
    __syncthreads();
  }
  return found;
}

// Best first: a bitonic network of mirrored merges. Entries after `count` would be the worst and
// never move, so any count works.
__device__ void sort_best_first(Candidate* list, int64_t count, By by) {
  const auto order = [&](int64_t i, int64_t j) {
    if (j <= i || j >= count || key_of(list[i], by) >= key_of(list[j], by)) return;
    const Candidate moved = list[i];
    list[i] = list[j];
    list[j] = moved;
  };
  for (int64_t size = 2; size < 2 * count; size *= 2) {
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) order(i, i ^ (size - 1));
    __syncthreads();
    for (int64_t step = size / 4; step > 0; step /= 2) {
      for (int64_t i = threadIdx.x; i < count; i += blockDim.x) order(i, i ^ step);
      __syncthreads();
    }
  }
}

// Fills `list` with the best `wanted` and returns how many there are.
__device__ int64_t select_best(const OutputTask& output, By by, Candidate* list, int64_t wanted) {
  __shared__ int taken;
  if (wanted <= 0) return 0;
  const Key last = last_wanted(output, by, wanted);
  if (threadIdx.x == 0) taken = 0;
  __syncthreads();
  for (int64_t i = threadIdx.x; i < output.cols; i += blockDim.x) {
    if (key_at(output, by, i) < last) continue;
    const auto id = static_cast<int32_t>(output.vocab_begin + i);
    list[atomicAdd(&taken, 1)] = candidate(output, id);
  }
  __syncthreads();
  sort_best_first(list, taken, by);
  return taken;
}

// Selects for output blockIdx.x. If blockIdx.y is 0: the best by edited logit, and the noisy
// winner. If it is 1: the best by raw logit.
__global__ void __launch_bounds__(kSelectThreads)
    select_kernel(TensorView logits, StepView step, int64_t vocab_begin, const Key* best,
                  int64_t slices) {
  OutputSpec& request = step.outputs[blockIdx.x];
  const OutputTask output = output_at(logits, step, blockIdx.x, vocab_begin);
  if (blockIdx.y == 1) {
    const int64_t found = select_best(output, By::kRaw, request.raw_top, request.raw_top_count);
    if (threadIdx.x == 0) request.raw_top_found = found;
    return;
  }
  const int64_t found = select_best(output, By::kEdited, request.top, request.top_count);
  if (threadIdx.x != 0) return;
  request.top_found = found;
  Key winner = 0;
  for (int64_t s = 0; s < slices; ++s) winner = Max::of(winner, best[blockIdx.x * slices + s]);
  request.noisy =
      request.want_noisy && winner != 0 ? candidate(output, id_of(winner)) : Candidate{};
}

}  // namespace

const char* top_candidates(const KernelArgs& args) {
  const TensorView& logits = args.in[0];
  const int64_t outputs = args.step->output_count, begin = args.attrs.top_candidates().vocab_begin;
  const int64_t slices = device::slice_count(logits.cols);
  auto* best = reinterpret_cast<Key*>(args.scratch);
  const char* failure = launch(slice_kernel, {slices, outputs}, kSliceThreads, args.queue, logits,
                               *args.step, begin, best);
  if (failure != nullptr) return failure;
  return launch(select_kernel, {outputs, 2}, kSelectThreads, args.queue, logits, *args.step, begin,
                best, slices);
}

}  // namespace lockstep::LOCKSTEP_TARGET
