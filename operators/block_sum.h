// SPDX-License-Identifier: Apache-2.0
// Partial sums of a softmax over the vocabulary: over some of the ids, the max of the logits x and
// the sum of exp(x - max).
#pragma once

namespace lockstep {

// {-inf, 0} if every x is -infinity or NaN.
struct BlockSum {
  float max;
  float sum;
};

}  // namespace lockstep
