// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX, Pythia, RedPajama, Dolly: layer norms, a part of each head turned, q, k and v of each
// head together in one matrix; the two halves of a layer are parallel, each with a norm, or serial.
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::gpt_neox {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return grouped_attention(g, c, x, layer, "attention.query_key_value", "attention.dense");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  return plain_mlp(g, c, x, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
}

void build_gpt_neox(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention = attention,
                .mlp = mlp,
                .embedding = "gpt_neox.embed_in",
                .layers = "gpt_neox.layers",
                .norm = "gpt_neox.final_layer_norm",
                .head = "embed_out"});
}

constexpr Architecture kRows[] = {
    {"GPTNeoXForCausalLM",
     build_gpt_neox,
     {.attention_bias = true,
      .mlp_bias = true,
      .layer_norm = true,
      .parallel = true,
      .parallel_norms = 2,
      .norm_eps = 1e-5,
      .activation = "gelu",
      .partial_rotary = 0.25,
      .keys = {"attention_bias", "use_parallel_residual"},
      .names = {{{"layer_norm_eps", "rms_norm_eps"},
                 {"rotary_pct", "partial_rotary_factor"},
                 {"rotary_emb_base", "rope_theta"}}}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::gpt_neox
