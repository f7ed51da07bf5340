// SPDX-License-Identifier: Apache-2.0
// The first ChatGLM: the tokens before `bos` see each other, each half of a head is rotated by its
// own position, and the residual stream is replaced by a norm's output times alpha.
#include <cmath>

#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::chatglm1 {
namespace {

// The second generation has the same name but none of these keys.
bool is_chatglm1(const Json& json) {
  return json.contains("position_encoding_2d") || json.contains("inner_hidden_size");
}

LanguageModel chatglm1(Keys& keys) {
  keys.rename("num_layers", "num_hidden_layers");
  keys.rename("inner_hidden_size", "intermediate_size");
  keys.rename("layernorm_epsilon", "rms_norm_eps");
  keys.rename("max_sequence_length", "max_position_embeddings");
  keys.only("position_encoding_2d attention_bias mlp_bias", true);
  keys.only("quantization_bit", 0);
  Llama m(keys, {.sizes = {.ffn_per_hidden = 4, .positions = 2048},
                 .norm = read_layer_norm(keys),
                 .activation = "gelu_new",
                 .rope = {.part = 0.5}});
  m.mlp.bias = true;
  m.attention.set_bias(true);
  // The first half of a head is rotated by the position in the prompt; the answer's tokens have the
  // position of the mask. The second half is rotated by the position in the answer.
  Ropes& ropes = m.attention.ropes;
  ropes.all.table.set_position_row(program::HELD);
  ropes.second = ropes.all;
  ropes.second.offset = ropes.all.rotary_dim;
  ropes.second.table.set_position_row(program::BLOCK);
  LanguageModel d =
      m.model(grouped_attention(m.attention, "attention.query_key_value", "attention.dense"),
              plain_mlp(m.mlp, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"));
  d.normed_residual = static_cast<float>(std::sqrt(2.0 * m.sizes.layers));
  for (const char* key : {"gmask_token_id", "mask_token_id"}) {
    const int64_t id = keys.integer(key, 0, m.sizes.vocab - 1);
    d.sequence_rules.add_held_ids(static_cast<int32_t>(id));
  }
  const int64_t bos = keys.integer("bos_token_id", 0, m.sizes.vocab - 1);
  d.sequence_rules.set_prefix_end(static_cast<int32_t>(bos));
  d.embedding = "transformer.word_embeddings";
  d.layers = "transformer.layers";
  d.norm = "transformer.final_layernorm";
  return d;
}

constexpr Architecture kRows[] = {
    {"ChatGLMModel", chatglm1, is_chatglm1},
    {"ChatGLMForConditionalGeneration", chatglm1, is_chatglm1},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::chatglm1
