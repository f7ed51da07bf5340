// SPDX-License-Identifier: Apache-2.0
// GPT-2: learned positions, matrices stored with inputs as rows; and GPT-BigCode (SantaCoder,
// StarCoder), whose matrices are stored as usual and whose heads may share one k and v.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::gpt2 {
namespace {

Llama read_gpt2(Keys& keys, const char* activation) {
  keys.rename("n_embd", "hidden_size");
  keys.rename("n_layer", "num_hidden_layers");
  keys.rename("n_head", "num_attention_heads");
  keys.rename("n_positions", "max_position_embeddings");
  keys.rename("n_inner", "intermediate_size");
  keys.rename("activation_function", "hidden_act");
  keys.rename("layer_norm_epsilon", "rms_norm_eps");
  keys.ignore("n_ctx");
  keys.only("attention_bias mlp_bias", true);
  Llama m(keys, {.sizes = {.ffn_per_hidden = 4, .positions = 1024},
                 .norm = read_layer_norm(keys),
                 .activation = activation,
                 .tied = true});
  m.attention.set_bias(true);
  m.attention.rotate_nothing();
  m.mlp.bias = true;
  if (!keys.flag("scale_attn_weights", true)) m.attention.scale = 1;
  return m;
}

LanguageModel model_of(const Llama& m, const Block& attention, const Block& mlp) {
  LanguageModel d = m.model(attention, mlp);
  d.embedding = "transformer.wte";
  d.positions = "transformer.wpe";
  d.position_rows = m.sizes.positions;
  d.layers = "transformer.h";
  d.attention_norm = "ln_1";
  d.mlp_norm = "ln_2";
  d.norm = "transformer.ln_f";
  return d;
}

LanguageModel gpt2(Keys& keys) {
  const Llama llama = read_gpt2(keys, "gelu_new");
  const bool by_layer = keys.flag("scale_attn_by_inverse_layer_idx", false);
  const Block attention = [by_layer, a = llama.attention](Graph& g, Value x, int layer) {
    const int64_t width = a.q_axis().columns();
    const auto part = [&](const char* name, int64_t begin, AxisSize out) {
      return transposed_part(g, x, "attn.c_attn", name, begin, 3 * width, out);
    };
    const Value q = part("q", 0, a.q_axis()), k = part("k", width, a.kv_axis());
    AttentionAttrs attrs = attention_attrs(a, layer);
    if (by_layer) attrs.scale /= static_cast<float>(layer + 1);
    const Value y = g.attention(q, k, part("v", 2 * width, a.kv_axis()), attrs);
    return transposed_linear(g, y, "attn.c_proj", hidden_axis(a.hidden));
  };
  const Block mlp = [m = llama.mlp](Graph& g, Value x, int) {
    const Value up = transposed_linear(g, x, "mlp.c_fc", ffn_axis(m.width));
    return transposed_linear(g, g.map(up, m.activation), "mlp.c_proj", hidden_axis(m.hidden));
  };
  return model_of(llama, attention, mlp);
}

LanguageModel bigcode(Keys& keys) {
  Llama m = read_gpt2(keys, "gelu_pytorch_tanh");
  m.set_kv_heads(keys.flag("multi_query", true) ? 1 : m.sizes.heads);
  // One KV head: all q, then k, then v; otherwise each head's q, k and v together.
  return model_of(m, grouped_attention(m.attention, "attn.c_attn", "attn.c_proj"),
                  plain_mlp(m.mlp, "mlp.c_fc", "mlp.c_proj"));
}

constexpr Architecture kRows[] = {{"GPT2LMHeadModel", gpt2}, {"GPTBigCodeForCausalLM", bigcode}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::gpt2
