// SPDX-License-Identifier: Apache-2.0
// How keys and values of one type are stored in pages and multiplied. Pages hold a chunk for every
// KV head and every kChunk positions. A chunk has keys [padded / kPack][kChunk][kPack], so that a
// key is a lane, then values [kChunk / kPack][padded][kPack], so that a column is a lane. `padded`
// is the dimension rounded up to whole vectors; the additional elements are zeros. One dot() adds
// kPack products to every lane. If values are the first columns of keys, a chunk has only keys.
//
// If kScaled, each key and each value is codes times its own scale. The scales [kChunk] of the keys
// are stored after the keys, and those of the values after the values.
//
//   Element: what pages hold; Factor: the type of rounded queries and weights; Operand: one vector
//   of kPack elements per lane; Sum: sixteen sums of dot(), initially zero(); Guard: an object of
//   this type must exist wherever dot() runs. scale_of(x, dim, limit): the scale with which dim
//   numbers become codes of at most `limit`; encode(x, scale, to): sixteen numbers as elements or
//   factors; store_weights(p, to): the same for results of exp(), if not kScaled.
#pragma once

#include "worker/kernels/cpu/pages/attention_scratch.h"
#include "worker/kernels/cpu/pages/words.h"
#include "worker/kernels/cpu/vector/vec_math.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {

inline constexpr int64_t kChunk = Vec::kLanes;
inline constexpr int64_t kBlockChunks = kKeyBlock / kChunk;

// float32 and bfloat16: unscaled numbers.
template <typename T, typename Lanes, typename Lifetime, int64_t kElements>
struct KvPlain {
  using Element = T;
  using Factor = T;
  using Operand = Lanes;
  using Sum = Vec;
  using Guard = Lifetime;
  static constexpr int64_t kPack = kElements;
  static constexpr bool kScaled = false;
  static constexpr float kMaxCode = 0, kMaxFactor = 0;

  static Vec zero() { return Vec::zero(); }
  static float scale_of(const float*, int64_t, float) { return 1; }
  static void encode(Vec x, float, T* to) { x.store(to); }
};

struct Nothing {};
struct KvF32 : KvPlain<float, Vec, Nothing, 1> {
  static void store_weights(Vec p, float* to) { p.store(to); }
  static Vec load(const float* p) { return Vec::load(p); }
  static Vec splat(const float* p) { return Vec::splat(*p); }
  static Vec dot(Vec a, Vec b, Vec c) { return fma(a, b, c); }
};
struct KvBF16 : KvPlain<uint16_t, Pairs, FlushDenormals, 2> {
  static void store_weights(Vec p, uint16_t* to) { store_normal(p, to); }
  static Pairs load(const uint16_t* p) { return Pairs::load(p); }
  static Pairs splat(const uint16_t* p) { return Pairs::splat(p); }
  static Vec dot(Pairs a, Pairs b, Vec c) { return dot_pairs(a, b, c); }
};

// int8: queries and weights are 16-bit codes, so both products are exact integers: at most
// 512 * 128 * 32767 in a score (the queries of wider heads have smaller codes).
struct KvI8 {
  using Element = int8_t;
  using Factor = int16_t;
  using Operand = Words;
  using Sum = Sums;
  using Guard = Nothing;
  static constexpr int64_t kPack = 2;
  static constexpr bool kScaled = true;
  static constexpr float kMaxCode = 127, kMaxFactor = 32767;

  static Sums zero() { return Sums::splat(0); }
  static Words load(const int8_t* p) { return Words::load(p); }
  static Words splat(const int16_t* p) { return Words::splat(p); }
  static Sums dot(Words a, Words b, Sums c) { return dot_words(a, b, c); }

  // 0 if all numbers are (nearly) 0; NaN if one is not finite.
  static float scale_of(const float* x, int64_t dim, float limit) {
    Vec highest = Vec::zero(), bad = Vec::zero();
    for (int64_t d = 0; d < dim; d += Vec::kLanes) {
      const Vec v = Vec::load(x + d, dim - d);
      highest = max(highest, max(v, Vec::zero() - v));
      bad = fma(v, Vec::zero(), bad);
    }
    const float scale = max_lane(highest) / limit;
    return (scale < 0x1p-126f ? 0.0f : scale) + sum(bad);
  }
  static void encode(Vec x, float scale, int16_t* to) {
    store_words(x / Vec::splat(scale > 0 ? scale : kInfinity), to);
  }
  static void encode(Vec x, float scale, int8_t* to) {
    int16_t codes[Vec::kLanes];
    encode(x, scale, codes);
    for (int64_t i = 0; i < Vec::kLanes; ++i) to[i] = static_cast<int8_t>(codes[i]);
  }
};

// The index of column d of key `slot` among the elements of a chunk's keys. value_at() is the same
// for values.
template <typename F>
int64_t key_at(int64_t slot, int64_t d) {
  return (d / F::kPack * kChunk + slot) * F::kPack + d % F::kPack;
}
template <typename F>
int64_t value_at(int64_t slot, int64_t d, int64_t stride) {
  return slot / F::kPack * F::kPack * stride + d * F::kPack + slot % F::kPack;
}

// kScaled: the scales of a chunk's keys, or of its values.
inline float* scales_of(int8_t* codes, int64_t stride) {
  return reinterpret_cast<float*>(codes + kChunk * stride);
}
inline const float* scales_of(const int8_t* codes, int64_t stride) {
  return reinterpret_cast<const float*>(codes + kChunk * stride);
}

// The number of elements of a chunk's keys, or of its values, with their scales; with scales,
// elements are bytes.
template <typename F>
int64_t part_elements(int64_t stride) {
  return kChunk * (stride + (F::kScaled ? int64_t{sizeof(float)} : 0));
}

// The chunks of a block of keys, in order, and their values.
template <typename F>
struct KeyBlock {
  int64_t v_stride;  // See value_stride().
  const typename F::Element* keys[kBlockChunks];
  const typename F::Element* values[kBlockChunks];
};

}  // namespace lockstep::LOCKSTEP_ISA
