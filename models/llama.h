// SPDX-License-Identifier: Apache-2.0
// Llama and its relatives: pre-norm, rotary grouped-query attention, gated MLP.
#pragma once

#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

void build_llama(Graph& graph, const Config& config);

}  // namespace lockstep
