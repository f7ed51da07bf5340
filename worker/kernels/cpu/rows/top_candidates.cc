// SPDX-License-Identifier: Apache-2.0
// For every output, as its OutputSpec requests: block sums, the noisy winner (the token with the
// largest edited logit plus noise), the best by edited and by raw logit, and a copy of the logits.
// First, each thread processes slices of blocks: it computes their sums, each block's largest value
// and the noise. Then the best are found. The k-th largest of the blocks' largest values is a lower
// bound of the k-th best, so few blocks are read again. NaN counts as -inf in sums and is ordered
// after all numbers.
#include "base/numbers/math.h"
#include "worker/kernels/cpu/scratch.h"
#include "worker/kernels/cpu/vector/vec.h"
#include "worker/kernels/cpu/vector/vec_math.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

constexpr int64_t kBlock = kVocabBlock;
constexpr int64_t kVecs = kBlock / Vec::kLanes;
// -log(-log(u)) is at most 36.74: u is at most 1 - 2^-53.
constexpr float kMaxNoise = 37.0f;

// A block's logits: raw, and after edits, temperature and mask. Bit i of `allowed`: id first + i
// exists and the mask allows it. Other ids are -inf in `edited`; ids that do not exist are -inf in
// `raw`, too.
struct VocabBlock {
  int64_t first;  // An id in the whole vocabulary.
  uint64_t exists;
  uint64_t allowed;
  float raw[kBlock];
  float edited[kBlock];
};

// One output and its place in the logits and in scratch.
struct OutputTask {
  OutputSpec& request;
  const float* logits;
  int64_t vocab_begin;
  int64_t cols;
  float* edited_highest;  // [blocks]
  float* raw_highest;     // [blocks]
  float* work;            // [2][blocks]
  Candidate* noisy;       // [slices]
};

uint64_t allowed_bits(const uint64_t* mask, int64_t first, int64_t count) {
  const int64_t word = first / 64, shift = first % 64;
  uint64_t bits = mask[word] >> shift;
  if (shift > 0 && count > 64 - shift) bits |= mask[word + 1] << (64 - shift);
  return bits;
}

void apply_edits(const OutputSpec& request, int64_t first, int64_t count, float* values) {
  int64_t low = 0, high = request.edit_count;  // The first edit of an id >= first.
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (request.edits[middle].id < first) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; low < request.edit_count && request.edits[low].id < first + count; ++low) {
    const LogitEdit& edit = request.edits[low];
    float& x = values[edit.id - first];
    x = x > 0 ? x / edit.repetition : x * edit.repetition;
    x = x + edit.add;
  }
}

void load_block(const OutputTask& output, int64_t index, VocabBlock& block) {
  const OutputSpec& request = output.request;
  const int64_t begin = index * kBlock, count = min(kBlock, output.cols - begin);
  block.first = output.vocab_begin + begin;
  block.exists = count < 64 ? (uint64_t{1} << count) - 1 : ~uint64_t{0};
  block.allowed = block.exists;
  for (int64_t i = 0; i < count; ++i) block.raw[i] = output.logits[begin + i];
  for (int64_t i = count; i < kBlock; ++i) block.raw[i] = -kInfinity;
  for (int64_t i = 0; i < kBlock; ++i) block.edited[i] = block.raw[i];
  if (request.edit_count > 0) apply_edits(request, block.first, count, block.edited);
  if (request.temperature > 0) {
    const Vec temperature = Vec::splat(request.temperature);
    for (int64_t i = 0; i < kBlock; i += Vec::kLanes) {
      (Vec::load(block.edited + i) / temperature).store(block.edited + i);
    }
  }
  if (request.mask == nullptr) return;
  block.allowed &= allowed_bits(request.mask, block.first, count);
  for (int64_t i = 0; i < kBlock; ++i) {
    if ((block.allowed >> i & 1) == 0) block.edited[i] = -kInfinity;
  }
}

float highest(const float* values) {
  const Vec lowest = Vec::splat(-kInfinity);
  Vec best = lowest;
  for (int64_t i = 0; i < kBlock; i += Vec::kLanes) {
    const Vec v = Vec::load(values + i);
    best = max(best, select_number(v, v, lowest));
  }
  return max_lane(best);
}

BlockSum block_sum(const float* values, float max) {
  if (max == -kInfinity) return {max, 0};
  const Vec lowest = Vec::splat(-kInfinity);
  Vec e[kVecs];
  for (int64_t i = 0; i < kVecs; ++i) {
    const Vec v = Vec::load(values + i * Vec::kLanes);
    e[i] = exp(select_number(v, v, lowest) - Vec::splat(max));
  }
  return {max, sum_block(e)};
}

// Descending values, NaN last, ties by ascending id.
template <float Candidate::*kValue>
bool better(const Candidate& a, const Candidate& b) {
  const float x = a.*kValue, y = b.*kValue;
  if (x != x || y != y) return x == x || (y != y && a.id < b.id);
  return x > y || (x == y && a.id < b.id);
}

float noisy_value(const OutputSpec& request, int32_t id, float edited) {
  if (!(request.temperature > 0)) return edited;
  return edited + gumbel_noise(request.seed, request.position, id);
}

Candidate candidate(const OutputTask& output, const VocabBlock& block, int64_t i) {
  const auto id = static_cast<int32_t>(block.first + i);
  return {id, block.raw[i], block.edited[i], noisy_value(output.request, id, block.edited[i])};
}

// Computes a lower bound of 1 - u for each id of a block, where u is the id's uniform number. The
// function does the steps of gumbel_bits() in vector lanes.
void lower_bounds(uint64_t key, int64_t first, float* bounds) {
  const auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  const uint32_t keys[3] = {k0, k1, k0 ^ k1 ^ 0x1bd11bdau};
  constexpr int kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  uint32_t a[kBlock], b[kBlock];
  for (int64_t i = 0; i < kBlock; ++i) {
    a[i] = static_cast<uint32_t>(first + i) + k0;
    b[i] = k1;
  }
  for (uint32_t round = 0; round < 20; ++round) {
    const int left = kRotations[round % 8], right = 32 - left;
    for (int64_t i = 0; i < kBlock; ++i) {
      a[i] += b[i];
      b[i] = (b[i] << left | b[i] >> right) ^ a[i];
    }
    if (round % 4 != 3) continue;
    const uint32_t s = round / 4 + 1;
    const uint32_t add_a = keys[s % 3], add_b = keys[(s + 1) % 3] + s;
    for (int64_t i = 0; i < kBlock; ++i) {
      a[i] += add_a;
      b[i] += add_b;
    }
  }
  for (int64_t i = 0; i < kBlock; ++i) {
    bounds[i] = static_cast<float>(static_cast<int32_t>(~a[i] >> 8)) * 0x1p-24f;
  }
}

// An id can win only if -log(u) <= exp(edited - best), and -log(u) >= 1 - u. Returns one bit for
// each of those ids, and for some more ids to allow for rounding.
uint64_t may_win(const VocabBlock& block, uint64_t key, float best) {
  float bounds[kBlock], keep[kBlock];
  lower_bounds(key, block.first, bounds);
  const float slack = 1e-4f + __builtin_fabsf(best) * 1e-6f;
  for (int64_t i = 0; i < kBlock; i += Vec::kLanes) {
    const Vec gap = Vec::load(block.edited + i) - Vec::splat(best) + Vec::splat(slack);
    // False for NaN: such an id is kept.
    select_less(exp(gap), Vec::load(bounds + i), Vec::zero(), Vec::splat(1.0f)).store(keep + i);
  }
  uint64_t bits = 0;
  for (int64_t i = 0; i < kBlock; ++i) bits |= uint64_t{keep[i] != 0} << i;
  return bits & block.allowed;
}

void take_noisy(const OutputTask& output, const VocabBlock& block, float block_highest,
                uint64_t key, Candidate& best) {
  if (best.id < 0 && block.allowed != 0) {
    // A first value to compare with: the block's most likely id.
    int64_t first = __builtin_ctzll(block.allowed);
    for (int64_t i = first; i < kBlock; ++i) {
      if ((block.allowed >> i & 1) != 0 && block.edited[i] == block_highest) {
        first = i;
        break;
      }
    }
    best = candidate(output, block, first);
  }
  uint64_t bits = block.allowed;
  if (output.request.temperature > 0) {
    if (block_highest + kMaxNoise < best.noisy) return;
    bits = may_win(block, key, best.noisy);
  } else if (block_highest < best.noisy) {
    return;
  }
  for (; bits != 0; bits &= bits - 1) {
    const Candidate next = candidate(output, block, __builtin_ctzll(bits));
    if (better<&Candidate::noisy>(next, best)) best = next;
  }
}

void run_slice(const OutputTask& output, int64_t slice) {
  OutputSpec& request = output.request;
  const int64_t blocks = (output.cols + kBlock - 1) / kBlock;
  const int64_t end = min(blocks, (slice + 1) * kSliceBlocks);
  const uint64_t key = gumbel_key(request.seed, request.position);
  Candidate noisy;
  for (int64_t b = slice * kSliceBlocks; b < end; ++b) {
    VocabBlock block;
    load_block(output, b, block);
    output.edited_highest[b] = highest(block.edited);
    output.raw_highest[b] = highest(block.raw);
    if (request.edited_sums != nullptr) {
      request.edited_sums[b] = block_sum(block.edited, output.edited_highest[b]);
    }
    if (request.raw_sums != nullptr) {
      request.raw_sums[b] = block_sum(block.raw, output.raw_highest[b]);
    }
    if (request.want_noisy) take_noisy(output, block, output.edited_highest[b], key, noisy);
    if (request.logits == nullptr) continue;
    const int64_t count = min(kBlock, output.cols - b * kBlock);
    __builtin_memcpy(request.logits + b * kBlock, block.raw,
                     static_cast<size_t>(count) * sizeof(float));
  }
  output.noisy[slice] = noisy;
}

// Moves the root of a heap down to its place. A heap has its worst entry at the root.
template <typename T, typename Before>
void sift_down(T* heap, int64_t size, const Before& before) {
  int64_t at = 0;
  while (true) {
    int64_t child = 2 * at + 1;
    if (child >= size) return;
    if (child + 1 < size && before(heap[child], heap[child + 1])) ++child;
    if (!before(heap[at], heap[child])) return;
    const T moved = heap[at];
    heap[at] = heap[child];
    heap[child] = moved;
    at = child;
  }
}

template <typename T, typename Before>
void push(T* heap, int64_t& size, const T& value, const Before& before) {
  int64_t at = size++;
  for (; at > 0 && before(heap[(at - 1) / 2], value); at = (at - 1) / 2) {
    heap[at] = heap[(at - 1) / 2];
  }
  heap[at] = value;
}

// The count-th largest of `values`; -inf if there are not more than `count` values.
float bound_of(const float* values, int64_t size, int64_t count, float* heap) {
  if (count >= size) return -kInfinity;
  const auto before = [](float a, float b) { return a > b; };
  int64_t held = 0;
  for (int64_t i = 0; i < size; ++i) {
    if (held < count) {
      push(heap, held, values[i], before);
    } else if (values[i] > heap[0]) {
      heap[0] = values[i];
      sift_down(heap, held, before);
    }
  }
  return heap[0];
}

// The best `count` by kValue among the allowed (edited) or all (raw) ids, in order.
template <float Candidate::*kValue>
int64_t select_best(const OutputTask& output, const float* block_highest, float* work,
                    Candidate* top, int64_t count) {
  if (count <= 0) return 0;
  constexpr bool kRaw = kValue == &Candidate::logit;
  const int64_t blocks = (output.cols + kBlock - 1) / kBlock;
  const float bound = bound_of(block_highest, blocks, count, work);
  const auto before = [](const Candidate& a, const Candidate& b) { return better<kValue>(a, b); };
  int64_t held = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    if (block_highest[b] < bound) continue;
    VocabBlock block;
    load_block(output, b, block);
    for (uint64_t bits = kRaw ? block.exists : block.allowed; bits != 0; bits &= bits - 1) {
      const int64_t i = __builtin_ctzll(bits);
      const float value = kRaw ? block.raw[i] : block.edited[i];
      if (value < bound) continue;
      const Candidate next = {static_cast<int32_t>(block.first + i), block.raw[i], block.edited[i],
                              0};
      if (held < count) {
        push(top, held, next, before);
      } else if (before(next, top[0])) {
        top[0] = next;
        sift_down(top, held, before);
      }
    }
  }
  for (int64_t size = held; size > 1;) {  // Sorts: moves the worst to the end.
    const Candidate worst = top[0];
    top[0] = top[--size];
    top[size] = worst;
    sift_down(top, size, before);
  }
  for (int64_t i = 0; i < held; ++i) {
    top[i].noisy = noisy_value(output.request, top[i].id, top[i].edited);
  }
  return held;
}

void pick_edited(const OutputTask& output, int64_t slices, int64_t blocks) {
  OutputSpec& request = output.request;
  request.top_found = select_best<&Candidate::edited>(output, output.edited_highest, output.work,
                                                      request.top, request.top_count);
  request.noisy = Candidate{};
  if (!request.want_noisy || blocks == 0) return;
  for (int64_t slice = 0; slice < slices; ++slice) {
    const Candidate& next = output.noisy[slice];
    if (next.id < 0) continue;
    if (request.noisy.id < 0 || better<&Candidate::noisy>(next, request.noisy)) {
      request.noisy = next;
    }
  }
}

void pick_raw(const OutputTask& output, int64_t blocks) {
  OutputSpec& request = output.request;
  request.raw_top_found = select_best<&Candidate::logit>(
      output, output.raw_highest, output.work + blocks, request.raw_top, request.raw_top_count);
}

}  // namespace

const char* top_candidates(const KernelArgs& args) {
  const TensorView& logits = args.in[0];
  const int64_t count = args.step->output_count;
  const CandidateScratch sizes = candidate_scratch(logits.cols);
  const auto output_at = [&](int64_t index) {
    auto* floats = reinterpret_cast<float*>(args.scratch + index * sizes.output_bytes);
    return OutputTask{args.step->outputs[index],
                      logits.row<float>(index),
                      args.attrs.top_candidates().vocab_begin,
                      logits.cols,
                      floats,
                      floats + sizes.blocks,
                      floats + 2 * sizes.blocks,
                      reinterpret_cast<Candidate*>(floats + 4 * sizes.blocks)};
  };
  for_each(*args.parallel, count * sizes.slices,
           [&](int64_t task) { run_slice(output_at(task / sizes.slices), task % sizes.slices); });
  for_each(*args.parallel, count * 2, [&](int64_t task) {
    const OutputTask output = output_at(task / 2);
    if (task % 2 == 0) {
      pick_edited(output, sizes.slices, sizes.blocks);
    } else {
      pick_raw(output, sizes.blocks);
    }
  });
  return nullptr;
}

}  // namespace lockstep::LOCKSTEP_ISA
