// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

void build_gptj(Graph& graph, const Config& config);
void build_codegen(Graph& graph, const Config& config);

// Refuses head counts that the matrix's blocks do not divide.
absl::Status refine_codegen(const Json& json, Config& config);

}  // namespace lockstep
