// SPDX-License-Identifier: Apache-2.0
// What several families share; a family's file says only what is its own.
#pragma once

#include <functional>
#include <string>

#include "models/blocks/mlp.h"
#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

// One half of a layer: normed x [Rows, hidden] -> what is added to the residual stream.
using OldBlock = std::function<Value(Graph& graph, const Config& config, Value x, int layer)>;

// Shapes, window, scale and cap.
AttentionSpec attention_spec(const Config& config, int layer);

// q and k rotated, where the layer turns, by the table of its kind; q scaled by its position, if
// the config says so; attention; the output projection `out`.
Value turned_attention(Graph& graph, const Config& config, Value q, Value k, Value v, int layer,
                       const std::string& out);

// The norm of that name as the config has it; x where `name` is null.
Value norm(Graph& graph, const Config& config, Value x, const char* name);

// Each a linear, `scope`.q_proj and so on.
struct OldQkv {
  Value q, k, v;
};
OldQkv separate_qkv(Graph& graph, const Config& config, Value x, const std::string& scope);

// The same as an attention; norms of q and k, if the config says so.
Value separate_attention(Graph& graph, const Config& config, Value x, int layer,
                         const std::string& scope, const std::string& out);
// With Llama's names.
Value old_llama_attention(Graph& graph, const Config& config, Value x, int layer);
// q, k and v below each other in the one matrix `qkv`.
Value stacked_attention(Graph& graph, const Config& config, Value x, int layer,
                        const std::string& qkv, const std::string& out);
// In the one matrix `qkv` the rows of each KV head are together: its query heads, then its k, then
// its v.
Value grouped_attention(Graph& graph, const Config& config, Value x, int layer,
                        const std::string& qkv, const std::string& out);

// down(activation(up(x))).
Value plain_mlp(Graph& graph, const Config& config, Value x, const std::string& up,
                const std::string& down);
// down(activation(gate(x)) * up(x)).
Value old_gated_mlp(Graph& graph, const Config& config, Value x, int layer);
// The same with gate and up below each other in the one matrix `gate_up`.
Value stacked_mlp(Graph& graph, const Config& config, Value x, const std::string& gate_up,
                  const std::string& down);

// A model of layers, x += attention(norm(x)); x += mlp(norm(x)), between embedding and head; with
// norms after the two halves where they have names, of what a half adds (out_norm) or of the stream
// that goes on (end_norm). Parallel halves both read the layer's x:
// x += attention(norm(x)) + mlp(norm(x)).
struct Layers {
  OldBlock attention = old_llama_attention;
  OldBlock mlp = old_gated_mlp;
  // Null, or what makes the residual stream of the embeddings (layer -1), and of that behind each
  // layer.
  OldBlock stream = nullptr;
  // Names in the checkpoint.
  const char* embedding = "model.embed_tokens";
  const char* positions = nullptr;  // Learned ones, where Config::position_rows is set.
  // Between embeddings of Config::embedding_width columns and the stream, both ways.
  const char* project_in = nullptr;
  const char* project_out = nullptr;
  const char* embedding_norm = nullptr;
  const char* layers = "model.layers";
  const char* attention_norm = "input_layernorm";
  const char* attention_out_norm = nullptr;
  const char* attention_end_norm = nullptr;
  const char* mlp_norm = "post_attention_layernorm";
  const char* mlp_out_norm = nullptr;
  const char* mlp_end_norm = nullptr;
  const char* norm = "model.norm";
  const char* head = "lm_head";
};
void build_layers(Graph& graph, const Config& config, const Layers& model);
// All of it Llama's: for families that differ from it only in Config.
void old_build_llama(Graph& graph, const Config& config);

}  // namespace lockstep
