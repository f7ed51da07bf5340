// SPDX-License-Identifier: Apache-2.0
// GPT-2: learned positions, matrices stored with the inputs as rows; and GPT-BigCode (SantaCoder,
// StarCoder), whose matrices are stored as usual and whose heads may share one k and v.
#include "base/status.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::gpt2 {
namespace {

Value gpt2_attention(Graph& g, const Config& c, Value x, int layer) {
  const int64_t width = heads(c).columns();
  const auto part = [&](const char* name, int64_t begin, AxisSize out) {
    return transposed_part(g, x, "attn.c_attn", name, begin, 3 * width, out);
  };
  const Value q = part("q", 0, heads(c)), k = part("k", width, kv_heads(c));
  AttentionSpec spec = attention_spec(c, layer);
  if (c.scale_by_layer) spec.scale /= static_cast<float>(layer + 1);
  const Value y = g.attention(q, k, part("v", 2 * width, kv_heads(c)), spec);
  return transposed_linear(g, y, "attn.c_proj", hidden(c));
}

Value gpt2_mlp(Graph& g, const Config& c, Value x, int) {
  const Value inner = g.map(transposed_linear(g, x, "mlp.c_fc", ffn(c)), c.activation);
  return transposed_linear(g, inner, "mlp.c_proj", hidden(c));
}

// One KV head: all q, then k, then v; else each head's q, k and v together.
Value bigcode_attention(Graph& g, const Config& c, Value x, int layer) {
  return grouped_attention(g, c, x, layer, "attn.c_attn", "attn.c_proj");
}

Value bigcode_mlp(Graph& g, const Config& c, Value x, int) {
  return plain_mlp(g, c, x, "mlp.c_fc", "mlp.c_proj");
}

void build(Graph& g, const Config& c, const OldBlock& attention, const OldBlock& mlp) {
  build_layers(g, c,
               {.attention = attention,
                .mlp = mlp,
                .embedding = "transformer.wte",
                .positions = "transformer.wpe",
                .layers = "transformer.h",
                .attention_norm = "ln_1",
                .mlp_norm = "ln_2",
                .norm = "transformer.ln_f"});
}

void build_gpt2(Graph& g, const Config& c) { build(g, c, gpt2_attention, gpt2_mlp); }
void build_bigcode(Graph& g, const Config& c) { build(g, c, bigcode_attention, bigcode_mlp); }

absl::Status refine(const Json& json, Config& c) {
  ASSIGN_OR_RETURN(const bool scaled, get_bool(json, "scale_attn_weights", true));
  if (!scaled) c.attention_scale = 1;
  ASSIGN_OR_RETURN(c.scale_by_layer, get_bool(json, "scale_attn_by_inverse_layer_idx", false));
  c.position_rows = c.max_position_embeddings;
  return absl::OkStatus();
}

absl::Status refine_bigcode(const Json& json, Config& c) {
  ASSIGN_OR_RETURN(const bool one_kv_head, get_bool(json, "multi_query", true));
  c.kv_heads = one_kv_head ? 1 : c.heads;
  return refine(json, c);
}

constexpr Family family_of(std::string_view activation, std::string_view own_key,
                           absl::Status (*refine)(const Json&, Config&)) {
  return {.tie_word_embeddings = true,
          .attention_bias = true,
          .mlp_bias = true,
          .layer_norm = true,
          .norm_eps = 1e-5,
          .activation = activation,
          .ffn_per_hidden = 4,
          .positions = 1024,
          .keys = {"n_ctx", "scale_attn_weights", own_key},
          .names = {{{"n_embd", "hidden_size"},
                     {"n_layer", "num_hidden_layers"},
                     {"n_head", "num_attention_heads"},
                     {"n_positions", "max_position_embeddings"},
                     {"n_inner", "intermediate_size"},
                     {"activation_function", "hidden_act"},
                     {"layer_norm_epsilon", "rms_norm_eps"}}},
          .refine = refine};
}

constexpr Architecture kRows[] = {
    {"GPT2LMHeadModel", build_gpt2,
     family_of("gelu_new", "scale_attn_by_inverse_layer_idx", refine)},
    {"GPTBigCodeForCausalLM", build_bigcode,
     family_of("gelu_pytorch_tanh", "multi_query", refine_bigcode)},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::gpt2
