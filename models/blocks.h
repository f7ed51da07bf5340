// SPDX-License-Identifier: Apache-2.0
// What several families share; a family's file says only what is its own.
#pragma once

#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

// The attention of one layer: normed x [Rows, hidden] -> what is added to the residual stream.
using AttentionBlock = Value (*)(Graph& graph, const Config& config, Value x, int layer);

// Shapes, window and the usual scale, 1 / sqrt(head_dim).
AttentionSpec attention_spec(const Config& config, int layer);

// The second half of one layer, likewise.
using MlpBlock = Value (*)(Graph& graph, const Config& config, Value x, int layer);

// down(silu(gate(x)) * up(x)).
Value gated_mlp(Graph& graph, const Config& config, Value x, int layer);

// Embedding, layers of x += attention(norm(x)); x += mlp(norm(x)), norm, head: with Llama's names.
void build_pre_norm(Graph& graph, const Config& config, AttentionBlock attention,
                    MlpBlock mlp = gated_mlp);

}  // namespace lockstep
