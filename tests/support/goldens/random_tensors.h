// SPDX-License-Identifier: Apache-2.0
// Weights for a graph that has no checkpoint.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

#include "models/graph/graph.h"
#include "tests/support/goldens/interpret.h"

namespace lockstep {

// Values for every source of the graph, with a gain of about one, so that activations neither
// vanish nor explode; norms are near 1.
inline naive::Tensors random_tensors(const Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  naive::Tensors tensors;
  for (const Parameter& parameter : graph.parameters()) {
    for (const program::Piece& piece : parameter.pieces) {
      naive::Tensor& tensor = tensors[piece.source()];
      if (!tensor.data.empty()) continue;
      tensor.shape.assign(piece.source_shape().begin(), piece.source_shape().end());
      int64_t size = 1;
      for (int64_t dimension : tensor.shape) size *= dimension;
      const bool norm = parameter.role == program::NORM;
      const float scale = norm ? 0.1f : 1 / std::sqrt(static_cast<float>(tensor.shape.back()));
      for (int64_t i = 0; i < size; ++i)
        tensor.data.push_back(normal(random) * scale + (norm ? 1 : 0));
    }
  }
  return tensors;
}

}  // namespace lockstep
