// SPDX-License-Identifier: Apache-2.0
// Falcon 7B (one KV head; one norm for both attention and MLP), 40B and 180B (grouped heads; one
// norm for attention, one for the MLP), 11B (grouped heads; one norm for both); and models with
// ALiBi.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::falcon {
namespace {

LanguageModel falcon(Keys& keys) {
  keys.rename("bias", "attention_bias");
  keys.rename("layer_norm_epsilon", "rms_norm_eps");
  keys.rename("num_kv_heads", "num_key_value_heads");
  keys.rename("n_head_kv", "num_key_value_heads");
  keys.rename("n_head", "num_attention_heads");
  keys.rename("n_layer", "num_hidden_layers");
  keys.rename("ffn_hidden_size", "intermediate_size");
  keys.rename("activation", "hidden_act");
  keys.ignore("ff_factor");
  Llama m(keys, {.sizes = {.ffn_per_hidden = 4, .positions = 2048},
                 .norm = read_layer_norm(keys),
                 .activation = "gelu",
                 .tied = true});
  const bool grouped = keys.flag("new_decoder_architecture", false);
  const bool one_kv_head = keys.flag("multi_query", true);
  if (!grouped) m.set_kv_heads(one_kv_head ? 1 : m.sizes.heads);
  m.mlp.bias = keys.flag("attention_bias", false);
  m.attention.set_bias(m.mlp.bias);
  if (keys.flag("alibi", false)) {
    // Falcon adds ALiBi's terms before it scales the scores.
    m.attention.slopes = alibi_slopes(m.sizes.heads);
    for (float& slope : m.attention.slopes) slope *= m.attention.scale;
    m.attention.rotate_nothing();
  }
  // With one KV head there is one group: all q, then k, then v.
  LanguageModel d = m.model(
      grouped_attention(m.attention, "self_attention.query_key_value", "self_attention.dense"),
      plain_mlp(m.mlp, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"));
  const bool parallel = keys.flag("parallel_attn", true);
  const int64_t norms = keys.count("num_ln_in_parallel_attn", 2, 2);
  d.parallel_norms = grouped ? static_cast<int>(norms) : parallel ? 1 : 0;
  d.embedding = "transformer.word_embeddings";
  d.layers = "transformer.h";
  d.norm = "transformer.ln_f";
  if (d.parallel_norms == 2) {
    d.attention_norm = "ln_attn";
    d.mlp_norm = "ln_mlp";
  }
  return d;
}

constexpr Architecture kRows[] = {{"FalconForCausalLM", falcon}, {"RWForCausalLM", falcon}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::falcon
