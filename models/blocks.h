// SPDX-License-Identifier: Apache-2.0
// What several families share; a family's file says only what is its own.
#pragma once

#include <string>

#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

// One half of a layer: normed x [Rows, hidden] -> what is added to the residual stream.
using Block = Value (*)(Graph& graph, const Config& config, Value x, int layer);

// Shapes, window and the usual scale, 1 / sqrt(head_dim).
AttentionSpec attention_spec(const Config& config, int layer);

// q and k rotated, where the layer turns; attention; the output projection `out`.
Value turned_attention(Graph& graph, const Config& config, Value q, Value k, Value v, int layer,
                       const std::string& out);

// With Llama's names: q, k and v each a linear; a norm per head of q and k, if the config says so.
Value separate_attention(Graph& graph, const Config& config, Value x, int layer);
// q, k and v below each other in the one matrix `qkv`.
Value stacked_attention(Graph& graph, const Config& config, Value x, int layer,
                        const std::string& qkv);

// down(silu(gate(x)) * up(x)).
Value gated_mlp(Graph& graph, const Config& config, Value x, int layer);
// gate and up below each other in one matrix.
Value stacked_mlp(Graph& graph, const Config& config, Value x, int layer);

// A model of layers, x += attention(norm(x)); x += mlp(norm(x)), between embedding and head.
struct PreNorm {
  Block attention = separate_attention;
  Block mlp = gated_mlp;
  // Names in the checkpoint.
  const char* embedding = "model.embed_tokens";
  const char* attention_norm = "input_layernorm";
  const char* mlp_norm = "post_attention_layernorm";
  const char* head = "lm_head";
};
void build_pre_norm(Graph& graph, const Config& config, const PreNorm& model);

}  // namespace lockstep
