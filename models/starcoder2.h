// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

void build_starcoder2(Graph& graph, const Config& config);

// Refuses what would compute wrong numbers; json is config.json.
absl::Status check_starcoder2(const Json& json);
// Its one key for all biases.
absl::Status refine_starcoder2(const Json& json, Config& config);

}  // namespace lockstep
