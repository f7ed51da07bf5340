// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings: what a config.json says of the tables that a model's layers use.
#pragma once

#include "models/blocks/sizes.h"
#include "models/graph.h"
#include "models/rope.h"

namespace lockstep {

struct Ropes {
  Rope all;          // Of layers that see all positions;
  Rope window;       // of layers with a window.
  Rope second;       // Of further columns of each head; head_dim 0: none.
  double reach = 1;  // How many times max_position_embeddings the scaling is made for.
  PositionScales query_scales;
};

// Heads are as wide as in `sizes` if the facts say nothing of layers that see all positions. With
// window_theta rope_parameters may have an object for each kind of layer.
Ropes read_rope(Keys& keys, const Sizes& sizes, RopeFacts facts = {});

// 1 + beta * log(1 + floor((position + offset) / length)) for every position up to `positions`.
// `key` is that of the length.
PositionScales scales_of_log(Keys& keys, std::string_view key, double beta, int64_t length,
                             int64_t offset, double positions);

}  // namespace lockstep
