// SPDX-License-Identifier: Apache-2.0
// BLOOM: alibi, a norm behind the embedding.
#include "base/status.h"
#include "models/alibi.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::bloom {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return grouped_attention(g, c, x, layer, "self_attention.query_key_value",
                           "self_attention.dense");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  return plain_mlp(g, c, x, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
}

void build_bloom(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention = attention,
                .mlp = mlp,
                .embedding = "transformer.word_embeddings",
                .embedding_norm = "transformer.word_embeddings_layernorm",
                .layers = "transformer.h",
                .norm = "transformer.ln_f"});
}

absl::Status refine_bloom(const Json& json, Config& c) {
  ASSIGN_OR_RETURN(const bool normed,
                   get_bool(json, "apply_residual_connection_post_layernorm", false));
  c.kept_norm = normed ? 1 : 0;
  c.slopes = alibi_slopes(c.heads);
  return absl::OkStatus();
}

constexpr Architecture kRows[] = {
    {"BloomForCausalLM",
     build_bloom,
     {.tie_word_embeddings = true,
      .attention_bias = true,
      .mlp_bias = true,
      .layer_norm = true,
      .norm_eps = 1e-5,
      .activation = "gelu_pytorch_tanh",
      .ffn_per_hidden = 4,
      .positions = 2048,
      .keys = {"offset_alibi", "apply_residual_connection_post_layernorm"},
      .names = {{{"n_embed", "hidden_size"},
                 {"n_layer", "num_hidden_layers"},
                 {"n_head", "num_attention_heads"},
                 {"seq_length", "max_position_embeddings"},
                 {"layer_norm_epsilon", "rms_norm_eps"}}},
      .refine = refine_bloom}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::bloom
