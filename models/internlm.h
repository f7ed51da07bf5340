// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

void build_internlm2(Graph& graph, const Config& config);

// InternLM 1, which is a Llama, says its rotary form in a key of its own; json is config.json.
absl::Status check_internlm(const Json& json);

}  // namespace lockstep
