// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

void build_falcon(Graph& graph, const Config& config);

// Refuses what would compute wrong numbers; json is config.json.
absl::Status check_falcon(const Json& json);
// KV heads, norms and biases by the keys that say which of its kinds a Falcon is.
absl::Status refine_falcon(const Json& json, Config& config);

}  // namespace lockstep
