// SPDX-License-Identifier: Apache-2.0
// Gemma 4: Gemma 3's order of norms; heads of their own size in layers without a window, which may
// make values of what keys are made of; last layers that read the pages of those before them;
// experts beside the MLP; embeddings for each layer, and a factor on what it gives.
#include "models/by_layer_blocks.h"
#include "models/families/families.h"

namespace lockstep::families::gemma4 {
namespace {

void build_gemma4(Graph& g, const Config& config) {
  KeptPages kept;
  Value by_layer;
  const auto attend = [&](Graph& graph, const Config& c, Value x, int layer) {
    return attention_by_kind(graph, c, x, layer, kept);
  };
  const auto mlp = [](Graph& graph, const Config& c, Value x, int layer) {
    return mlp_beside_experts(graph, config_of_layer(c, layer), x, layer);
  };
  const auto stream = [&](Graph& graph, const Config& c, Value x, int layer) {
    if (layer < 0) {
      if (c.kinds.by_layer_width > 0) by_layer = embeddings_by_layer(graph, c, x);
      return x;
    }
    if (c.kinds.by_layer_width > 0) x = add_by_layer(graph, c, x, by_layer, layer);
    // One route, whose weight is the factor.
    return graph.combine(x, {.weights = graph.broadcast("layer_scalar", kOneRow, {1})});
  };
  build_layers(g, config,
               {.attention = attend,
                .mlp = mlp,
                .stream = stream,
                .attention_out_norm = "post_attention_layernorm",
                .mlp_norm = nullptr,
                .mlp_out_norm = "post_feedforward_layernorm"});
}

// A wrapper's text_config says no more than what differs.
constexpr char kDefaults[] = R"({"vocab_size": 262144, "hidden_size": 2304,
    "intermediate_size": 9216, "num_hidden_layers": 30, "num_attention_heads": 8,
    "max_position_embeddings": 131072, "rope_parameters": {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                       "rope_theta": 1000000.0}}})";

constexpr Architecture kRows[] = {
    {"Gemma4ForCausalLM",
     build_gemma4,
     {.tie_word_embeddings = true,
      .embedding_by_sqrt_hidden = true,
      .activation = "gelu_pytorch_tanh",
      .rope_theta = 1000000,
      .window_rope_theta = 10000,
      .kv_heads = 4,
      .head_dim = 256,
      .window = WindowRule::kPattern,
      .default_window = 512,
      .full_every = 6,
      .defaults = kDefaults,
      .keys = {"attention_bias", "attention_k_eq_v", "enable_moe_block", "final_logit_softcapping",
               "global_head_dim", "hidden_size_per_layer_input", "layer_types",
               "num_global_key_value_heads", "num_kv_shared_layers", "per_layer_config",
               "sliding_window", "use_bidirectional_attention", "use_double_wide_mlp",
               "vocab_size_per_layer_input"},
      .names = {{{"hidden_activation", "hidden_act"}, {"top_k_experts", "num_experts_per_tok"}}},
      .experts = {.count_key = "num_experts",
                  .count = 128,
                  .chosen = 8,
                  .size = 704,
                  .always_renormalised = true},
      .refine = read_kinds,
      .refine_layers = check_kinds}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::gemma4
