// SPDX-License-Identifier: Apache-2.0
// The first ChatGLM: the tokens before `bos` see one another, each half of a head turns by a
// position of its own, and the residual stream goes on with what a norm gives, times alpha.
#include <cmath>

#include "base/status.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::chatglm1 {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return grouped_attention(g, c, x, layer, "attention.query_key_value", "attention.dense");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  return plain_mlp(g, c, x, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
}

// The first half of a head turns by the position among the prompt's tokens, which ends at that of
// the mask, the second one by that in the answer.
void build_chatglm1(Graph& g, const Config& config) {
  Config c = config;
  c.rope.table.set_position_row(program::HELD);
  c.second_rope = c.rope;
  c.second_rope.offset = c.rope.rotary_dim;
  c.second_rope.table.set_position_row(program::BLOCK);
  g.sequence_rules.set_prefix_end(static_cast<int32_t>(c.bos_token_ids.at(0)));
  for (const int64_t id : c.mask_token_ids) {
    g.sequence_rules.add_held_ids(static_cast<int32_t>(id));
  }
  build_layers(g, c,
               {.attention = attention,
                .mlp = mlp,
                .embedding = "transformer.word_embeddings",
                .layers = "transformer.layers",
                .norm = "transformer.final_layernorm"});
}

// The second generation has the same name, and none of these keys.
bool is_chatglm1(const Json& json) {
  return json.contains("position_encoding_2d") || json.contains("inner_hidden_size");
}

absl::Status check_chatglm1(const Json& json) {
  const OnlyValue only[] = {{"position_encoding_2d", true}, {"quantization_bit", 0}};
  return check_only(json, only);
}

absl::Status refine_chatglm1(const Json& json, Config& c) {
  c.kept_norm = static_cast<float>(std::sqrt(2.0 * c.layers));
  for (const char* key : {"gmask_token_id", "mask_token_id"}) {
    ASSIGN_OR_RETURN(const int64_t id, get_int(json, key));
    if (id < 0 || id >= c.vocab_size) {
      return invalid_argument("{}: must be a token id below {}, found {}", key, c.vocab_size, id);
    }
    c.mask_token_ids.push_back(id);
  }
  ASSIGN_OR_RETURN(const int64_t bos, get_int(json, "bos_token_id"));
  if (bos < 0) return invalid_argument("bos_token_id: must be a token id, found {}", bos);
  return absl::OkStatus();
}

constexpr Family kChatGlm1 = {
    .attention_bias = true,
    .mlp_bias = true,
    .layer_norm = true,
    .norm_eps = 1e-5,
    .activation = "gelu_new",
    .partial_rotary = 0.5,
    .ffn_per_hidden = 4,
    .positions = 2048,
    .keys = {"position_encoding_2d", "gmask_token_id", "mask_token_id", "quantization_bit"},
    .names = {{{"num_layers", "num_hidden_layers"},
               {"inner_hidden_size", "intermediate_size"},
               {"layernorm_epsilon", "rms_norm_eps"},
               {"max_sequence_length", "max_position_embeddings"}}},
    .check = check_chatglm1,
    .refine = refine_chatglm1,
};

constexpr Architecture kRows[] = {
    {"ChatGLMModel", build_chatglm1, kChatGlm1, is_chatglm1},
    {"ChatGLMForConditionalGeneration", build_chatglm1, kChatGlm1, is_chatglm1},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::chatglm1
