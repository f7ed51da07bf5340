// SPDX-License-Identifier: Apache-2.0
// ChatGLM2 and ChatGLM3: rotated neighbouring columns in each head's first half; fused matrices.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::chatglm {
namespace {

LanguageModel chatglm(Keys& keys) {
  keys.rename("padded_vocab_size", "vocab_size");
  keys.rename("num_layers", "num_hidden_layers");
  keys.rename("ffn_hidden_size", "intermediate_size");
  keys.rename("kv_channels", "head_dim");
  keys.rename("multi_query_group_num", "num_key_value_heads");
  keys.rename("seq_length", "max_position_embeddings");
  keys.rename("layernorm_epsilon", "rms_norm_eps");
  keys.rename("add_qkv_bias", "use_qkv_bias");
  keys.only("rmsnorm post_layer_norm original_rope", true);
  keys.only("quantization_bit", 0);
  keys.ignore("apply_query_key_layer_scaling attention_softmax_in_fp32 bias_dropout_fusion");
  Llama m(
      keys,
      {.norm = read_rms_norm(keys, 1e-5),
       .rope = {.theta = 10000.0 * keys.factor("rope_ratio"), .part = 0.5, .interleaved = true}});
  if (!keys.flag("multi_query_attention", false)) m.set_kv_heads(m.sizes.heads);
  m.attention.qkv_bias = keys.flag("use_qkv_bias", false);
  LanguageModel d = m.model(
      stacked_attention(m.attention, "self_attention.query_key_value", "self_attention.dense"),
      stacked_mlp(m.mlp, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"));
  d.embedding = "transformer.embedding.word_embeddings";
  d.layers = "transformer.encoder.layers";
  d.norm = "transformer.encoder.final_layernorm";
  d.head = "transformer.output_layer";
  return d;
}

constexpr Architecture kRows[] = {{"ChatGLMModel", chatglm},
                                  {"ChatGLMForConditionalGeneration", chatglm}};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::chatglm
