// SPDX-License-Identifier: Apache-2.0
// The axes of a model's values and weights.
#pragma once

#include <cstdint>

namespace lockstep {

// The meaning of a dimension: all that sharding needs from a model. kNone is never split: rotary
// tables, the weight of a head_norm, the one row of a bias. kLatent: the few columns between a
// narrowing and a widening matrix, which one norm covers.
enum class Axis : uint8_t { kNone, kHidden, kHeads, kKvHeads, kFfn, kLatent, kVocab };
inline constexpr int kAxisCount = 7;
const char* axis_name(Axis axis);

// `count` units of `unit` columns each. A unit is never split: a head's columns stay together.
struct AxisSize {
  Axis axis = Axis::kNone;
  int64_t count = 0;
  int64_t unit = 1;
  // For kKvHeads: the number of query heads. Each KV head serves the same number of consecutive
  // query heads. Layers may differ in all of these fields.
  int64_t serves = 0;
  int64_t columns() const { return count * unit; }
};

// The rows of a vector.
inline constexpr AxisSize kOneRow = {.axis = Axis::kNone, .count = 1, .unit = 1};

}  // namespace lockstep
