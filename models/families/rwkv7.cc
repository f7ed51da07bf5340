// SPDX-License-Identifier: Apache-2.0
// RWKV 7 with the names of the published files, and with those of flash-linear-attention.
#include "models/blocks.h"
#include "models/families/families.h"
#include "models/rwkv7_blocks.h"
#include "models/rwkv_blocks.h"

namespace lockstep::families::rwkv7 {
namespace {

constexpr Rwkv7Names kNames = {"att", "receptance", "key", "value", "output", "ln_x", false};
constexpr Rwkv7Names kFlaNames = {"attn", "r_proj", "k_proj", "v_proj", "o_proj", "g_norm", true};

void build_layers_named(Graph& g, const Config& c, const Rwkv7Names& names, Layers layers) {
  Value first_v;
  layers.attention = [&](Graph& graph, const Config& config, Value x, int layer) {
    return rwkv7_time_mix(graph, config, names, x, layer, first_v);
  };
  layers.mlp = [&](Graph& graph, const Config& config, Value x, int) {
    const Scope scope(graph, "ffn");
    const TokenShift rows = token_shift(graph, x);
    const Value weight = rwkv7_vector(graph, names, "x_k", hidden(config));
    const Value key = graph.linear(graph.lerp(rows.x, rows.before, weight), "key", ffn(config));
    return graph.linear(graph.map(key, config.activation), "value", hidden(config));
  };
  build_layers(g, c, layers);
}

void build(Graph& g, const Config& c) {
  build_layers_named(g, c, kNames,
                     {.embedding = "emb",
                      .embedding_norm = "blocks.0.ln0",
                      .layers = "blocks",
                      .attention_norm = "ln1",
                      .mlp_norm = "ln2",
                      .norm = "ln_out",
                      .head = "head"});
}

void build_fla(Graph& g, const Config& c) {
  build_layers_named(g, c, kFlaNames,
                     {.embedding = "model.embeddings",
                      .embedding_norm = "model.layers.0.pre_norm",
                      .attention_norm = "attn_norm",
                      .mlp_norm = "ffn_norm"});
}

constexpr Architecture kRows[] = {
    {"Rwkv7ForCausalLM",
     build,
     {.layer_norm = true,
      .norm_eps = 1e-5,
      .activation = "relu2",
      .positions = 4096,
      .defaults = R"({"num_attention_heads": 1, "head_dim": 64})",
      .keys = {"decay_low_rank_dim", "a_low_rank_dim", "v_low_rank_dim", "gate_low_rank_dim"},
      .names = {{{"layer_norm_epsilon", "rms_norm_eps"}, {"head_size", "head_dim"}}},
      .sizes = {{{"decay_low_rank_dim", "blocks.0.att.w1", 1},
                 {"a_low_rank_dim", "blocks.0.att.a1", 1},
                 {"v_low_rank_dim", "blocks.1.att.v1", 1},
                 {"gate_low_rank_dim", "blocks.0.att.g1", 1},
                 {"intermediate_size", "blocks.0.ffn.key.weight", 0}}},
      .refine = read_rwkv7}},
    {"RWKV7ForCausalLM",
     build_fla,
     {.layer_norm = true,
      .norm_eps = 1e-5,
      .activation = "sqrelu",
      .positions = 2048,
      .defaults = R"({"num_attention_heads": 1, "head_dim": 64})",
      .keys = {"decay_low_rank_dim", "a_low_rank_dim", "v_low_rank_dim", "gate_low_rank_dim",
               "norm_first", "norm_bias", "value_dim", "num_heads", "hidden_ratio", "attn_mode",
               "fuse_norm", "fuse_cross_entropy", "fuse_linear_cross_entropy", "use_l2warp"},
      .names = {{{"norm_eps", "rms_norm_eps"}}},
      .sizes = {{{"decay_low_rank_dim", "model.layers.0.attn.w_lora.lora.0.weight", 0},
                 {"a_low_rank_dim", "model.layers.0.attn.a_lora.lora.0.weight", 0},
                 {"v_low_rank_dim", "model.layers.1.attn.v_lora.lora.0.weight", 0},
                 {"gate_low_rank_dim", "model.layers.0.attn.g_lora.lora.0.weight", 0},
                 {"intermediate_size", "model.layers.0.ffn.key.weight", 0}}},
      .refine = read_fla_rwkv7}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::rwkv7
