// SPDX-License-Identifier: Apache-2.0
// ChatGLM2, ChatGLM3 and GLM-4: neighbouring columns of the first half of each head turn; fused
// matrices. GLM-4 in transformers' form also has norms behind attention and MLP.
#include "models/glm.h"

#include "base/status.h"
#include "models/blocks.h"

namespace lockstep {
namespace {

Value stacked_glm4_mlp(Graph& g, const Config& c, Value x, int) {
  return stacked_mlp(g, c, x, "mlp.gate_up_proj", "mlp.down_proj");
}

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return stacked_attention(g, c, x, layer, "self_attention.query_key_value",
                           "self_attention.dense");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  return stacked_mlp(g, c, x, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h");
}

}  // namespace

void build_glm4(Graph& g, const Config& c) {
  build_layers(g, c,
               {.mlp = stacked_glm4_mlp,
                .attention_out_norm = "post_self_attn_layernorm",
                .mlp_out_norm = "post_mlp_layernorm"});
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

// Both generations have this architecture's name.
absl::Status check_chatglm(const Json& json) {
  for (const char* key : {"position_encoding_2d", "inner_hidden_size"}) {
    if (!json.contains(key)) continue;
    return invalid_argument(
        "{}: this is a ChatGLM of the first generation, which is not supported yet; supported: "
        "ChatGLM2 and ChatGLM3",
        key);
  }
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

}  // namespace lockstep
