// SPDX-License-Identifier: Apache-2.0
// Weights for `--random-weights SEED`: real shapes without real weights. A slice has the same
// elements on any rank and any machine.
#pragma once

#include <cstdint>

#include "checkpoint/rectangle.h"
#include "proto/program.pb.h"

namespace lockstep {

// An element depends only on the seed, the role, the source's name and shape, and the element's row
// and column in the source. Columns that are 2^32 apart have equal elements. Elements are uniformly
// distributed: NORM in 1 +- 0.1, BIAS in +-0.02.
// EMBEDDING and POSITIONS have standard deviation 1, and other matrices 1 / sqrt(inputs), so that
// activations keep their scale. A tied embedding and head have the same elements, each scaled by
// its role.
class RandomWeights {
 public:
  explicit RandomWeights(uint64_t seed) : seed_(seed) {}

  uint64_t seed() const { return seed_; }

  // `rectangle` must be inside piece's source. `out` is as in Checkpoint::read(), transposed if the
  // piece is.
  void read(const program::Piece& piece, program::Role role, const Rectangle& rectangle, float* out,
            int64_t out_stride) const;

 private:
  uint64_t seed_;
};

}  // namespace lockstep
