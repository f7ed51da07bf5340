// SPDX-License-Identifier: Apache-2.0
// Softmax over splits of the keys: merges sums of probabilities times values, each relative to the
// highest score of its split (FlashAttention-2, Dao 2023, arXiv:2307.08691).
#pragma once

#include "worker/kernels/cuda/scalar.h"

namespace lockstep::LOCKSTEP_TARGET {

// The highest score so far, and the sum of the probabilities relative to it.
struct Softmax {
  float highest = -kInfinity;
  float total = 0;
};

// Merges a split with those before it; of() does the same for a sum. A split in which a row sees no
// key changes nothing.
class Merge {
 public:
  Merge() = default;
  __device__ Merge(Softmax& before, const Softmax& split) {
    const float highest = Max::of(before.highest, split.highest);
    const float from = highest == -kInfinity ? 0.0f : highest;  // -inf - -inf would be NaN.
    keep_ = exp_of(before.highest - from);
    add_ = exp_of(split.highest - from);
    before = {highest, of(before.total, split.total)};
  }
  __device__ float of(float before, float split) const { return fmaf(split, add_, before * keep_); }

 private:
  float keep_ = 1, add_ = 0;
};

// A sum divided by the sum of probabilities, which includes the sink's if there is one.
class Quotient {
 public:
  __device__ Quotient(const Softmax& softmax, const float* sink) : total_(softmax.total) {
    if (sink == nullptr) return;
    const float largest = Max::of(softmax.highest, *sink);
    shrink_ = exp_of(softmax.highest - largest);
    total_ = fmaf(total_, shrink_, exp_of(*sink - largest));
  }
  // Never -0, which would show whether zeros were added.
  __device__ float of(float sum) const { return sum * shrink_ / total_ + 0.0f; }

 private:
  float shrink_ = 1, total_;
};

}  // namespace lockstep::LOCKSTEP_TARGET
