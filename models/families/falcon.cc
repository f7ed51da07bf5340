// SPDX-License-Identifier: Apache-2.0
// Falcon of 7B (one KV head; one norm feeds attention and MLP), of 40B and 180B (grouped heads, a
// norm each), of 11B (grouped heads, one norm); and those with alibi.
#include "base/numbers/math.h"
#include "base/status.h"
#include "models/alibi.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::falcon {
namespace {

// With one KV head all q, then k, then v.
Value attention(Graph& g, const Config& c, Value x, int layer) {
  return grouped_attention(g, c, x, layer, "self_attention.query_key_value",
                           "self_attention.dense");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  return plain_mlp(g, c, x, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
}

void build_falcon(Graph& g, const Config& c) {
  const bool norm_each = c.parallel_norms == 2;
  build_layers(g, c,
               {.attention = attention,
                .mlp = mlp,
                .embedding = "transformer.word_embeddings",
                .layers = "transformer.h",
                .attention_norm = norm_each ? "ln_attn" : "input_layernorm",
                .mlp_norm = norm_each ? "ln_mlp" : "post_attention_layernorm",
                .norm = "transformer.ln_f"});
}

absl::Status refine_falcon(const Json& json, Config& c) {
  ASSIGN_OR_RETURN(const bool grouped, get_bool(json, "new_decoder_architecture", false));
  ASSIGN_OR_RETURN(const bool one_kv_head, get_bool(json, "multi_query", true));
  if (!grouped) c.kv_heads = one_kv_head ? 1 : c.heads;
  ASSIGN_OR_RETURN(const bool parallel, get_bool(json, "parallel_attn", true));
  ASSIGN_OR_RETURN(const int64_t norms, get_count(json, "num_ln_in_parallel_attn", 2, 2));
  c.parallel_norms = grouped ? static_cast<int>(norms) : parallel ? 1 : 0;
  c.mlp_bias = c.output_bias;
  ASSIGN_OR_RETURN(const bool alibi, get_bool(json, "alibi", false));
  if (!alibi) return absl::OkStatus();
  c.slopes = alibi_slopes(c.heads);  // Added before scores are scaled.
  for (float& slope : c.slopes) {
    slope *= static_cast<float>(exact_pow(static_cast<double>(c.head_dim), -0.5));
  }
  return absl::OkStatus();
}

constexpr Family kFalcon = {
    .tie_word_embeddings = true,
    .layer_norm = true,
    .norm_eps = 1e-5,
    .activation = "gelu",
    .ffn_per_hidden = 4,
    .positions = 2048,
    .keys = {"attention_bias", "alibi", "multi_query", "parallel_attn", "new_decoder_architecture",
             "num_ln_in_parallel_attn", "ff_factor"},
    .names = {{{"bias", "attention_bias"},
               {"layer_norm_epsilon", "rms_norm_eps"},
               {"num_kv_heads", "num_key_value_heads"},
               {"n_head_kv", "num_key_value_heads"},
               {"n_head", "num_attention_heads"},
               {"n_layer", "num_hidden_layers"},
               {"ffn_hidden_size", "intermediate_size"},
               {"activation", "hidden_act"}}},
    .refine = refine_falcon,
};

constexpr Architecture kRows[] = {
    {"FalconForCausalLM", build_falcon, kFalcon},
    {"RWForCausalLM", build_falcon, kFalcon},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::falcon
