// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings as a config.json describes them: kind of scaling, frequencies and the factor of
// cos and sin.
#pragma once

#include "absl/status/statusor.h"
#include "base/json.h"
#include "models/graph.h"

namespace lockstep {

struct RopeConfig {
  Rope rope;
  double reach = 1;  // How many times max_position_embeddings the scaling is made for.
};

// From the top level of a config.json, both forms. Errors name the key; the caller names the file.
absl::StatusOr<RopeConfig> parse_rope(const Json& json, int64_t head_dim,
                                      int64_t max_position_embeddings);

}  // namespace lockstep
