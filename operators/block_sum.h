// SPDX-License-Identifier: Apache-2.0
// The sum over some ids of exp(x - max), and max: the part of a softmax over the vocabulary that
// can be computed from some of the ids.
#pragma once

namespace lockstep {

// {-inf, 0} if every x is -infinity or NaN.
struct BlockSum {
  float max;
  float sum;
};

}  // namespace lockstep
