// SPDX-License-Identifier: Apache-2.0
// Weights for `--random-weights SEED`: real shapes without real weights. Any slice that any rank
// reads agrees with any other, and with itself on any machine.
#pragma once

#include <cstdint>

#include "checkpoint/rectangle.h"
#include "proto/program.pb.h"

namespace lockstep {

// An element is a function of (seed, source's name, row, column of the source, role) alone; columns
// 2^32 apart repeat. Uniform: NORM in 1 +- 0.1, BIAS in +-0.02, EMBEDDING with standard deviation
// 1, LINEAR and HEAD with 1 / sqrt(inputs), so that activations keep their scale. The role counts:
// a tied embedding and head have the same elements, each in its own scale.
class RandomWeights {
 public:
  explicit RandomWeights(uint64_t seed) : seed_(seed) {}

  uint64_t seed() const { return seed_; }

  // `rectangle` is of piece's source, and must be inside it. As Checkpoint::read.
  void read(const program::Piece& piece, program::Role role, const Rectangle& rectangle, float* out,
            int64_t out_stride) const;

 private:
  uint64_t seed_;
};

}  // namespace lockstep
