// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings: the tables of a model's layers, from a config.json.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "models/blocks/sizes.h"
#include "models/graph/graph.h"

namespace lockstep {

struct RopeConfig {
  Rope rope;
  double reach = 1;  // How many times max_position_embeddings the scaling supports.
};

// Facts from the rest of a config and from its family.
struct RopeFacts {
  int64_t head_dim = 0;
  int64_t max_positions = 0;
  double theta = 10000;  // If the key is missing.
  double part = 0;       // The part of a head that is rotated; 0: whole heads, in every model.
  int64_t dim = 0;       // Rotated columns, if the config states their number; 0: `part` of all.
  bool interleaved = false;
  bool yarn_is_longrope = false;  // The kinds "yarn" and "su" are older names of "longrope".
  bool fixed_alpha = false;       // An alpha beside the kind "dynamic" applies to every length.
  // The unit of a prompt's length, on which frequencies depend (dynamic NTK of the first Qwen); 0:
  // they do not.
  int64_t ntk_length = 0;
  std::string member = "";  // ".full_attention" of rope_parameters, for messages.
  // For read_rope():
  double window_theta = 0;      // For layers with a window, unscaled; 0: one table for all layers.
  bool reads_dim = false;       // rotary_dim states how many columns are rotated.
  bool scales_queries = false;  // rope_parameters has llama_4_scaling_beta.
  bool whole_heads = false;     // partial_rotary_factor in rope_parameters is of a larger head.
};

// Parses the top level of a config.json, in both forms. Errors name the key, not the file.
absl::StatusOr<RopeConfig> parse_rope(const Json& json, const RopeFacts& facts);

struct Ropes {
  Rope all;          // For layers that see all positions;
  Rope window;       // for layers with a window.
  Rope second;       // For further columns of each head; head_dim 0: none.
  double reach = 1;  // How many times max_position_embeddings the scaling supports.
  PositionScales query_scales;
};

// Heads are as wide as in `sizes` unless the facts give the width for layers that see all
// positions. With window_theta, rope_parameters may have one object per kind of layer.
Ropes read_rope(Keys& keys, const Sizes& sizes, RopeFacts facts = {});

// 1 + beta * log(1 + floor((position + offset) / length)) for every position up to `positions`.
// `key` is the name of the length, for messages.
PositionScales scales_of_log(Keys& keys, std::string_view key, double beta, int64_t length,
                             int64_t offset, double positions);

}  // namespace lockstep
