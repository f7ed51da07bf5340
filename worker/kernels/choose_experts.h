// SPDX-License-Identifier: Apache-2.0
// Chooses the experts of a row by the experts' keys, with the same steps on every back end. Among
// equal keys the expert with the lower number is chosen. A comparison with a NaN key is false. So
// if the first expert that can still be chosen has a NaN key, this expert is chosen next, and there
// are always as many experts as needed. Internal linkage, since files of every ISA include it.
#pragma once

#include "worker/kernels/kernel.h"

namespace lockstep {
namespace {

enum class Pick : uint8_t { kOpen, kChosen, kOut };

// The scores and choices of one row.
struct RouteRow {
  float scores[kMaxExperts];
  float keys[kMaxExperts];  // Scores plus a bias that only the choice uses.
  float group_keys[kMaxExperts];
  Pick experts[kMaxExperts];
  Pick groups[kMaxExperts];
};

[[maybe_unused, gnu::always_inline]] constexpr void pick_best(const float* keys, int64_t count,
                                                              int64_t wanted, Pick* picks) {
  for (int64_t n = 0; n < wanted; ++n) {
    int64_t best = -1;
    for (int64_t i = 0; i < count; ++i) {
      if (picks[i] == Pick::kOpen && (best < 0 || keys[i] > keys[best])) best = i;
    }
    if (best >= 0) picks[best] = Pick::kChosen;
  }
}

// A group's best key, or the sum of its two best.
[[maybe_unused, gnu::always_inline]] constexpr float group_key(const float* keys, int64_t count,
                                                               bool best_two) {
  float first = -__builtin_inff(), second = first;
  for (int64_t i = 0; i < count; ++i) {
    if (keys[i] > first) {
      second = first;
      first = keys[i];
    } else if (keys[i] > second) {
      second = keys[i];
    }
  }
  return best_two ? first + second : first;
}

// Fills row.experts from row.keys.
[[maybe_unused, gnu::always_inline]] constexpr void choose_experts(const RouteAttrs& attrs,
                                                                   int64_t count, RouteRow& row) {
  const int64_t each = count / attrs.groups;
  for (int64_t i = 0; i < count; ++i) row.experts[i] = Pick::kOpen;
  for (int64_t g = 0; g < attrs.groups; ++g) {
    row.groups[g] = Pick::kOpen;
    row.group_keys[g] = group_key(row.keys + g * each, each, attrs.best_two);
  }
  pick_best(row.group_keys, attrs.groups, attrs.chosen_groups, row.groups);
  for (int64_t i = 0; i < count; ++i) {
    if (row.groups[i / each] != Pick::kChosen) row.experts[i] = Pick::kOut;
  }
  pick_best(row.keys, count, attrs.chosen, row.experts);
}

// The chosen weights are divided by their sum plus this: the sum of sigmoids may be 0.
constexpr float kMinSum = 1e-20f;

// Writes the ids of the chosen experts, ascending, and their weights. Ids are `id_stride` elements
// apart, weights `stride` elements.
[[maybe_unused, gnu::always_inline]] constexpr void list_chosen(const RouteAttrs& attrs,
                                                                int64_t count, const RouteRow& row,
                                                                int32_t* ids, int64_t id_stride,
                                                                float* weights, int64_t stride) {
  int64_t found = 0;
  float sum = 0;
  for (int64_t i = 0; i < count && found < attrs.chosen; ++i) {
    if (row.experts[i] != Pick::kChosen) continue;
    ids[found * id_stride] = static_cast<int32_t>(i);
    weights[found * stride] = row.scores[i];
    sum = sum + row.scores[i];
    ++found;
  }
  for (int64_t n = 0; n < found; ++n) {
    float& weight = weights[n * stride];
    if (attrs.renormalised) weight = weight / (sum + kMinSum);
    weight = weight * attrs.scale;
  }
}

}  // namespace
}  // namespace lockstep
