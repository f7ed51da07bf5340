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
  double reach = 1;  // The scaling supports this multiple of max_position_embeddings.
};

// Facts from the rest of a config and from its family.
struct RopeFacts {
  int64_t head_dim = 0;
  int64_t max_positions = 0;
  double theta = 10000;  // The base if rope_theta is missing.
  // The rotated part of a head if partial_rotary_factor is missing; 0: always whole heads.
  double part = 0;
  int64_t dim = 0;  // Rotated columns, if the config states their number; 0: see `part`.
  bool interleaved = false;
  bool yarn_is_longrope = false;  // The kinds "yarn" and "su" are older names of "longrope".
  bool fixed_alpha = false;       // In the kind "dynamic", an alpha applies to every length.
  // Dynamic NTK of the first Qwen: frequencies depend on the prompt's length in units of this many
  // tokens. 0: they do not depend on the length.
  int64_t ntk_length = 0;
  std::string member = "";  // For messages: ".full_attention" within rope_parameters; "": none.
  // Only read_rope() reads these:
  double window_theta = 0;      // The base in layers with a window; 0: all layers have one table.
  bool reads_dim = false;       // rotary_dim states how many columns are rotated.
  bool scales_queries = false;  // rope_parameters has llama_4_scaling_beta.
  bool whole_heads = false;     // Ignores partial_rotary_factor, which refers to a larger head.
};

// Parses the rotary keys of a config.json's top level. Errors name the key, not the file.
absl::StatusOr<RopeConfig> parse_rope(const Json& json, const RopeFacts& facts);

struct Ropes {
  Rope all;          // For layers that see all positions.
  Rope window;       // For layers with a window.
  Rope second;       // For further columns of each head; head_dim 0: none.
  double reach = 1;  // The scaling supports this multiple of max_position_embeddings.
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
