// SPDX-License-Identifier: Apache-2.0
// The sum over some ids of exp(x - max), and max: what of a softmax over the vocabulary is computed
// where only a part of it is.
#pragma once

namespace lockstep {

// Where no x is more than -infinity: {-inf, 0}.
struct BlockSum {
  float max;
  float sum;
};

}  // namespace lockstep
