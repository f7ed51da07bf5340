// SPDX-License-Identifier: Apache-2.0
// ChatGLM2 and ChatGLM3: neighbouring columns of the first half of each head turn; fused matrices.
#include "base/status.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::chatglm {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return stacked_attention(g, c, x, layer, "self_attention.query_key_value",
                           "self_attention.dense");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  return stacked_mlp(g, c, x, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
}

void build_chatglm(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention = attention,
                .mlp = mlp,
                .embedding = "transformer.embedding.word_embeddings",
                .layers = "transformer.encoder.layers",
                .norm = "transformer.encoder.final_layernorm",
                .head = "transformer.output_layer"});
}

absl::Status check_chatglm(const Json& json) {
  ASSIGN_OR_RETURN(const int64_t bits, get_int(json, "quantization_bit", 0));
  if (bits != 0) {
    return invalid_argument("quantization_bit: {} is not supported; supported: 0", bits);
  }
  for (const char* key : {"rmsnorm", "post_layer_norm", "original_rope"}) {
    ASSIGN_OR_RETURN(const bool set, get_bool(json, key, true));
    if (!set) return invalid_argument("{}: false is not supported; supported: true", key);
  }
  return absl::OkStatus();
}

absl::Status refine_chatglm(const Json& json, Config& c) {
  ASSIGN_OR_RETURN(const bool groups, get_bool(json, "multi_query_attention", false));
  if (!groups) c.kv_heads = c.heads;
  return absl::OkStatus();
}

// Keys that its code reads and that change nothing here are in the list too.
constexpr Family kChatGlm = {
    .norm_eps = 1e-5,
    .partial_rotary = 0.5,
    .rope_interleaved = true,
    .keys = {"use_qkv_bias", "rope_ratio", "rmsnorm", "post_layer_norm", "original_rope",
             "multi_query_attention", "apply_query_key_layer_scaling", "attention_softmax_in_fp32",
             "bias_dropout_fusion", "quantization_bit"},
    .names = {{{"padded_vocab_size", "vocab_size"},
               {"num_layers", "num_hidden_layers"},
               {"ffn_hidden_size", "intermediate_size"},
               {"kv_channels", "head_dim"},
               {"multi_query_group_num", "num_key_value_heads"},
               {"seq_length", "max_position_embeddings"},
               {"layernorm_epsilon", "rms_norm_eps"},
               {"add_qkv_bias", "use_qkv_bias"}}},
    .check = check_chatglm,
    .refine = refine_chatglm,
};

constexpr Architecture kRows[] = {
    {"ChatGLMModel", build_chatglm, kChatGlm},
    {"ChatGLMForConditionalGeneration", build_chatglm, kChatGlm},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::chatglm
