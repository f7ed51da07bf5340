// SPDX-License-Identifier: Apache-2.0
// Llama and its relatives: pre-norm, rotary grouped-query attention, gated MLP.
#pragma once

#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

// q, k, v and o by these names, with biases and norms of heads as the config has them.
Value llama_attention(Graph& graph, const Config& config, Value x, int layer);

void build_llama(Graph& graph, const Config& config);

}  // namespace lockstep
