// SPDX-License-Identifier: Apache-2.0
// BLOOM: ALiBi, and a norm after the embedding.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::bloom {
namespace {

LanguageModel bloom(Keys& keys) {
  keys.rename("n_embed", "hidden_size");
  keys.rename("n_layer", "num_hidden_layers");
  keys.rename("n_head", "num_attention_heads");
  keys.rename("seq_length", "max_position_embeddings");
  keys.rename("layer_norm_epsilon", "rms_norm_eps");
  keys.ignore("offset_alibi");
  keys.only("attention_bias mlp_bias", true);
  Llama m(keys, {.sizes = {.ffn_per_hidden = 4, .positions = 2048},
                 .norm = read_layer_norm(keys),
                 .activation = "gelu_pytorch_tanh",
                 .tied = true});
  m.attention.set_bias(true);
  m.attention.slopes = alibi_slopes(m.sizes.heads);
  m.attention.rotate_nothing();
  m.mlp.bias = true;
  LanguageModel d = m.model(
      grouped_attention(m.attention, "self_attention.query_key_value", "self_attention.dense"),
      plain_mlp(m.mlp, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"));
  d.normed_residual = keys.flag("apply_residual_connection_post_layernorm", false) ? 1 : 0;
  d.embedding = "transformer.word_embeddings";
  d.embedding_norm = "transformer.word_embeddings_layernorm";
  d.layers = "transformer.h";
  d.norm = "transformer.ln_f";
  return d;
}

constexpr Architecture kRows[] = {{"BloomForCausalLM", bloom}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::bloom
