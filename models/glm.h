// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

void build_glm4(Graph& graph, const Config& config);
void build_chatglm(Graph& graph, const Config& config);

// Refuses what would compute wrong numbers; json is config.json.
absl::Status check_chatglm(const Json& json);
// KV heads where they are not grouped.
absl::Status refine_chatglm(const Json& json, Config& config);

}  // namespace lockstep
