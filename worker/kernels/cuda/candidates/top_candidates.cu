// SPDX-License-Identifier: Apache-2.0
// For every output, as its OutputSpec requests: block sums, the noisy winner (the token with the
// largest edited logit plus noise), the best by edited and by raw logit, and a copy of the logits.
// All results have the same bits as on a CPU.
// A key has 64 bits: the value's bits changed so that they order as unsigned numbers, then the id's
// complement. So no two keys are equal, and a larger one is a better candidate (NaN counts as the
// lowest value).
// Blocks of threads process slices of the vocabulary: sums, copies, the best key of each block of
// ids, and the slice's best noisy key. The block of threads that ends last then selects the
// output's candidates. The best 64 ids are all in the 64 blocks of ids with the best keys, and no
// key of these ids is below the smallest of those 64 keys. If more ids are needed, the ids that
// were found are left out, and the next 64 are found in the same way.
#include "base/numbers/noise.h"
#include "worker/kernels/cuda/candidates/best_keys.h"
#include "worker/kernels/cuda/candidates/noise_bounds.h"
#include "worker/kernels/cuda/peers/arrivals.h"
#include "worker/kernels/cuda/scalar.h"
#include "worker/kernels/cuda/sizes.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

static_assert(sizeof(Key) == device::kCandidateKeyBytes);

// The threads that share a block of the vocabulary, like the lanes of a CPU's vector.
constexpr int kLanes = 16;
constexpr int kEach = kVocabBlock / kLanes;
constexpr int kThreads = device::kSliceBlocks * kLanes;
constexpr int kWarps = kThreads / kWarp;
constexpr int kWarpBlocks = kBest / kWarps;  // Blocks of the vocabulary that a warp reads again.

enum class By : uint8_t { kEdited, kRaw };

// Edits in ascending order of ids.
struct Edits {
  const LogitEdit* list;
  int64_t count;
};

// One output: its request, its logits and its scratch.
struct OutputTask {
  const OutputSpec& request;
  const float* logits;
  int64_t vocab_begin;
  int64_t cols;
  Key* edited_best;  // [blocks of the vocabulary]
  Key* raw_best;     // [blocks of the vocabulary]
  Key* noisy_best;   // [slices]
};

// The task of output blockIdx.y. `request` is the output's request, or a copy of it.
__device__ OutputTask output_of(const OutputSpec& request, const TensorView& logits,
                                int64_t vocab_begin, Key* scratch) {
  const int64_t slices = gridDim.x, blocks = slices * device::kSliceBlocks;
  Key* own = scratch + blockIdx.y * device::candidate_keys(slices);
  return {.request = request,
          .logits = logits.row<float>(blockIdx.y),
          .vocab_begin = vocab_begin,
          .cols = logits.cols,
          .edited_best = own,
          .raw_best = own + blocks,
          .noisy_best = own + 2 * blocks};
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

// The number of the first edit of an id >= `id`.
__device__ int64_t edits_before(const Edits& edits, int64_t id) {
  int64_t low = 0, high = edits.count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (edits.list[middle].id < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ Edits all_edits(const OutputSpec& request) {
  return {request.edits, request.edit_count};
}

// The edits of ids [begin, end).
__device__ Edits edits_between(const OutputSpec& request, int64_t begin, int64_t end) {
  const Edits all = all_edits(request);
  const int64_t first = edits_before(all, begin);
  return {all.list + first, edits_before(all, end) - first};
}

// A logit after edits, temperature and mask.
__device__ float edited_logit(const OutputSpec& request, const Edits& edits, int32_t id, float x) {
  for (int64_t i = edits_before(edits, id); i < edits.count && edits.list[i].id == id; ++i) {
    const LogitEdit edit = edits.list[i];
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
  const float edited = edited_logit(output.request, all_edits(output.request), id, raw);
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

// A thread's part of a block of the vocabulary: number j is that of column first + j * kLanes. A
// column that does not exist is -inf and not allowed; one that is not allowed is -inf in `edited`.
struct Part {
  int64_t first;
  float raw[kEach];
  float edited[kEach];
  bool allowed[kEach];
};

__device__ Part load_part(const OutputTask& output, int64_t block) {
  constexpr int64_t kSlice = device::kSliceBlocks * kVocabBlock;
  const OutputSpec& request = output.request;
  Part part;
  part.first = block * kVocabBlock + threadIdx.x % kLanes;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int64_t i = part.first + j * kLanes;
    part.raw[j] = i < output.cols ? output.logits[i] : -kInfinity;
  }
  const int64_t slice = output.vocab_begin + blockIdx.x * kSlice;
  const Edits edits = edits_between(request, slice, slice + kSlice);
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int64_t i = part.first + j * kLanes;
    const auto id = static_cast<int32_t>(output.vocab_begin + i);
    part.allowed[j] = i < output.cols && is_allowed(request, id);
    part.edited[j] = part.allowed[j] ? edited_logit(request, edits, id, part.raw[j]) : -kInfinity;
  }
  return part;
}

// The best key of a slice by edited logit plus noise. The noise itself is computed only for tokens
// that may win according to its bounds. The bounds hold for rounded sums, too, because a larger sum
// is never rounded to a smaller number. A NaN sum always passes this test.
__device__ Key noisy_winner(const OutputTask& output, const Part& part) {
  const OutputSpec& request = output.request;
  NoiseBounds bounds[kEach] = {};
  float at_least = -kInfinity;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const auto id = static_cast<int32_t>(output.vocab_begin + part.first + j * kLanes);
    if (request.temperature > 0) {
      uint32_t low_bits = 0;
      bounds[j] = noise_bounds(exact::gumbel_bits(request.seed, request.position, id, &low_bits));
    }
    const float low = part.edited[j] + bounds[j].low;
    if (part.allowed[j] && low > at_least) at_least = low;
  }
  at_least = over_block<Max>(at_least);
  Key winner = 0;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    if (!part.allowed[j] || part.edited[j] + bounds[j].high < at_least) continue;
    const auto id = static_cast<int32_t>(output.vocab_begin + part.first + j * kLanes);
    winner = Max::of(winner, key_of(noisy_value(request, id, part.edited[j]), id));
  }
  return over_block<Max>(winner);
}

// The best key among the `values` of kLanes threads.
__device__ Key best_key(const OutputTask& output, const Part& part, const float (&values)[kEach],
                        By by) {
  Key best = 0;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const int64_t i = part.first + j * kLanes;
    const bool exists = by == By::kRaw ? i < output.cols : part.allowed[j];
    const Key key = key_of(values[j], static_cast<int32_t>(output.vocab_begin + i));
    if (exists) best = Max::of(best, key);
  }
  return over_lanes<Max, kLanes>(best);
}

// Slice blockIdx.x: each kLanes threads process a block of the vocabulary.
__device__ void scan_slice(const OutputTask& output) {
  const OutputSpec& request = output.request;
  const int64_t block = blockIdx.x * device::kSliceBlocks + threadIdx.x / kLanes;
  const Part part = load_part(output, block);
  const bool writes = threadIdx.x % kLanes == 0;
  const bool exists = block * kVocabBlock < output.cols;
  if (request.logits != nullptr) {
    for (int j = 0; j < kEach; ++j) {
      const int64_t i = part.first + j * kLanes;
      if (i < output.cols) request.logits[i] = part.raw[j];
    }
  }
  if (request.edited_sums != nullptr) {
    const BlockSum sum = block_sum(part.edited);
    if (writes && exists) request.edited_sums[block] = sum;
  }
  if (request.raw_sums != nullptr) {
    const BlockSum sum = block_sum(part.raw);
    if (writes && exists) request.raw_sums[block] = sum;
  }
  if (request.top_count > 0) {
    const Key best = best_key(output, part, part.edited, By::kEdited);
    if (writes) output.edited_best[block] = best;
  }
  if (request.raw_top_count > 0) {
    const Key best = best_key(output, part, part.raw, By::kRaw);
    if (writes) output.raw_best[block] = best;
  }
  if (request.want_noisy) {
    const Key winner = noisy_winner(output, part);
    if (threadIdx.x == 0) output.noisy_best[blockIdx.x] = winner;
  }
}

template <By kBy>
__device__ Key key_at(const OutputTask& output, int64_t i) {
  const auto id = static_cast<int32_t>(output.vocab_begin + i);
  if (i >= output.cols) return 0;
  if (kBy == By::kRaw) return key_of(output.logits[i], id);
  if (!is_allowed(output.request, id)) return 0;
  return key_of(edited_logit(output.request, all_edits(output.request), id, output.logits[i]), id);
}

struct SelectMemory {
  Key waiting[kWarps * BestKeys::kWaiting];
  Key blocks[kBest];  // The best keys of blocks of the vocabulary.
  Key best[kBest];
};

// Fills memory.blocks from the best keys of all blocks of the vocabulary.
__device__ void find_blocks(const Key* best_of_blocks, SelectMemory& memory) {
  constexpr int kLoads = 8;
  const int64_t blocks = int64_t{gridDim.x} * device::kSliceBlocks;
  BestKeys found(memory.waiting);
  for (int64_t begin = 0; begin < blocks; begin += kLoads * kThreads) {
    const int64_t first = begin + threadIdx.x / kWarp * (kLoads * kWarp) + threadIdx.x % kWarp;
    Key keys[kLoads];
#pragma unroll
    for (int j = 0; j < kLoads; ++j) {
      keys[j] = first + j * kWarp < blocks ? best_of_blocks[first + j * kWarp] : 0;
    }
#pragma unroll
    for (int j = 0; j < kLoads; ++j) found.add(keys[j]);
  }
  found.merge<kWarps>(memory.blocks);
}

// A warp's part of memory.blocks: kWarpBlocks neighbours.
__device__ Key own_block(const SelectMemory& memory, int number) {
  return memory.blocks[threadIdx.x / kWarp * kWarpBlocks + number];
}

// Loads a lane's keys of a block of the vocabulary. `block` is any key of that block; if it is 0,
// all keys are 0.
template <By kBy>
__device__ void load_keys(const OutputTask& output, Key block, Key (&keys)[kLaneKeys]) {
  const int64_t first = (id_of(block) - output.vocab_begin) / kVocabBlock * kVocabBlock;
#pragma unroll
  for (int r = 0; r < kLaneKeys; ++r) {
    const int64_t i = first + threadIdx.x % kWarp + kWarp * r;
    keys[r] = block == 0 ? 0 : key_at<kBy>(output, i);
  }
}

// Fills memory.best with the best keys below `end` in the blocks of memory.blocks.
template <By kBy>
__device__ void find_ids(const OutputTask& output, Key end, SelectMemory& memory) {
  constexpr int kLoads = 4;
  const Key least = memory.blocks[kBest - 1];
  BestKeys found(memory.waiting);
#pragma unroll 1
  for (int first = 0; first < kWarpBlocks; first += kLoads) {
    Key keys[kLoads][kLaneKeys];
#pragma unroll
    for (int b = 0; b < kLoads; ++b) {
      load_keys<kBy>(output, own_block(memory, first + b), keys[b]);
    }
#pragma unroll
    for (int b = 0; b < kLoads; ++b) {
#pragma unroll
      for (const Key key : keys[b]) found.add(key >= least && key < end ? key : 0);
    }
  }
  found.merge<kWarps>(memory.best);
}

// Replaces the best key of each block of memory.blocks by the block's best key below `end`.
template <By kBy>
__device__ void take_out(const OutputTask& output, Key end, Key* best_of_blocks,
                         const SelectMemory& memory) {
#pragma unroll 1
  for (int b = 0; b < kWarpBlocks; ++b) {
    const Key block = own_block(memory, b);
    Key keys[kLaneKeys], left = 0;
    load_keys<kBy>(output, block, keys);
    for (const Key key : keys) left = key < end ? Max::of(left, key) : left;
    left = over_lanes<Max, kWarp>(left);
    if (block == 0 || threadIdx.x % kWarp != 0) continue;
    best_of_blocks[(id_of(block) - output.vocab_begin) / kVocabBlock] = left;
  }
}

// Fills `list` with the best `wanted` and returns how many there are.
template <By kBy>
__device__ int64_t select_best(const OutputTask& output, Key* best_of_blocks, Candidate* list,
                               int64_t wanted, SelectMemory& memory) {
  int64_t found = 0;
  for (Key end = ~Key{0}; found < wanted;) {
    find_blocks(best_of_blocks, memory);
    find_ids<kBy>(output, end, memory);
    const auto asked = static_cast<int>(min(kBest, wanted - found));
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < asked && memory.best[thread] != 0) {
      list[found + thread] = candidate(output, id_of(memory.best[thread]));
    }
    int taken = asked;
    while (taken > 0 && memory.best[taken - 1] == 0) --taken;
    found += taken;
    end = memory.best[kBest - 1];
    if (end == 0 || found == wanted) break;
    take_out<kBy>(output, end, best_of_blocks, memory);
    __syncthreads();
  }
  return found;
}

// Selects the output's candidates, after all slices were scanned.
__device__ void select(const OutputTask& output, OutputSpec& answer, SelectMemory& memory) {
  const OutputSpec& request = output.request;
  Key winner = 0;
  for (int64_t s = threadIdx.x; request.want_noisy && s < gridDim.x; s += kThreads) {
    winner = Max::of(winner, output.noisy_best[s]);
  }
  winner = over_block<Max>(winner);
  const int64_t found =
      select_best<By::kEdited>(output, output.edited_best, request.top, request.top_count, memory);
  const int64_t raw_found = select_best<By::kRaw>(output, output.raw_best, request.raw_top,
                                                  request.raw_top_count, memory);
  if (threadIdx.x != kThreads - 1) return;  // The first threads compute candidates.
  answer.top_found = found;
  answer.raw_top_found = raw_found;
  answer.noisy = winner != 0 ? candidate(output, id_of(winner)) : Candidate{};
}

// Slice blockIdx.x of output blockIdx.y.
__global__ void __launch_bounds__(kThreads, 3)
    candidates_kernel(TensorView logits, StepView step, int64_t vocab_begin, Key* scratch) {
  __shared__ SelectMemory memory;
  OutputSpec& answer = step.outputs[blockIdx.y];
  const OutputSpec request = answer;
  scan_slice(output_of(request, logits, vocab_begin, scratch));
  if (!arrives_last(&answer.slices_done, static_cast<int32_t>(gridDim.x))) return;
  select(output_of(answer, logits, vocab_begin, scratch), answer, memory);
}

}  // namespace

const char* top_candidates(const KernelArgs& args) {
  const TensorView& logits = args.in[0];
  const int64_t slices = device::slice_count(logits.cols);
  return launch(candidates_kernel, {slices, args.step->output_count}, kThreads, args.queue, logits,
                *args.step, args.attrs.top_candidates().vocab_begin,
                reinterpret_cast<Key*>(args.scratch));
}

}  // namespace lockstep::LOCKSTEP_TARGET
