// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings as a config.json describes them: kind of scaling, frequencies and the factor of
// cos and sin.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "models/graph.h"

namespace lockstep {

struct RopeConfig {
  Rope rope;
  double reach = 1;  // How many times max_position_embeddings the scaling is made for.
};

// What the rest of a config and its family say.
struct RopeFacts {
  int64_t head_dim = 0;
  int64_t max_positions = 0;
  double theta = 10000;  // Where the key is missing.
  double part = 0;       // As Family::partial_rotary.
  int64_t dim = 0;       // Columns that turn, where the config says how many; 0: `part` of all.
  bool interleaved = false;
  bool yarn_is_longrope = false;  // As Family::yarn_is_longrope.
  bool fixed_alpha = false;       // As Family::rope_fixed_alpha.
  int64_t ntk_length = 0;         // As Config::ntk_length.
  std::string member = "";        // ".full_attention" of rope_parameters, for messages.
  // For read_rope():
  double window_theta = 0;      // Of layers with a window, unscaled; 0: one table for all layers.
  bool reads_dim = false;       // rotary_dim says how many columns turn.
  bool scales_queries = false;  // rope_parameters has llama_4_scaling_beta.
  bool whole_heads = false;     // partial_rotary_factor in rope_parameters is of a larger head.
};

// From the top level of a config.json, both forms. Errors name the key; the caller names the file.
absl::StatusOr<RopeConfig> parse_rope(const Json& json, const RopeFacts& facts);

}  // namespace lockstep
