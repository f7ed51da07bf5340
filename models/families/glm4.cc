// SPDX-License-Identifier: Apache-2.0
// GLM-4 in transformers' form: rotates neighbouring columns of each head's first half; gate and up
// in one matrix; models of 2025 also have norms after attention and MLP. GLM-4.5: experts like
// those of DeepSeek-V3; each head's first half is rotated in Llama's way, not by neighbouring
// columns. dots.llm1: like GLM-4.5, but rotates whole heads.
#include "models/blocks/llama.h"
#include "models/families/families.h"

namespace lockstep::families::glm4 {
namespace {

LanguageModel stacked_glm(Keys& keys, const LlamaDefaults& missing, bool qkv_bias) {
  keys.rename("attention_bias", "use_qkv_bias");
  Llama m(keys, missing);
  m.attention.qkv_bias = keys.flag("use_qkv_bias", qkv_bias);
  return m.model(nullptr, stacked_mlp(m.mlp, "mlp.gate_up_proj", "mlp.down_proj"));
}

LanguageModel glm(Keys& keys) {
  return stacked_glm(keys,
                     {.sizes = {.kv_heads = 2, .head_dim = 128},
                      .norm = read_rms_norm(keys, 1.5625e-7),
                      .rope = {.part = 0.5, .interleaved = true}},
                     /*qkv_bias=*/true);
}

LanguageModel sandwich_norm(LanguageModel d) {
  d.attention_out_norm = "post_self_attn_layernorm";
  d.mlp_out_norm = "post_mlp_layernorm";
  return d;
}

LanguageModel glm4(Keys& keys) {
  return sandwich_norm(stacked_glm(keys,
                                   {.sizes = {.kv_heads = 2, .head_dim = 128},
                                    .norm = read_rms_norm(keys, 1e-5),
                                    .rope = {.part = 0.5, .interleaved = true}},
                                   /*qkv_bias=*/false));
}

// Glm4ForCausalLM with biases; whole heads, each hidden_size / heads wide, are rotated.
LanguageModel glm4v(Keys& keys) {
  return sandwich_norm(stacked_glm(keys,
                                   {.sizes = {.kv_heads = 2},
                                    .norm = read_rms_norm(keys, 1e-5),
                                    .rope = {.part = 1, .interleaved = true}},
                                   /*qkv_bias=*/true));
}

bool is_glm4v(const Json& json) { return json.value("model_type", Json()) == "glm4v_text"; }

LanguageModel glm4_moe(Keys& keys) {
  keys.rename("attention_bias", "use_qkv_bias");
  Llama m(keys,
          {.sizes = {.kv_heads = 8}, .norm = read_rms_norm(keys, 1e-5), .rope = {.part = 0.5}});
  m.attention.norm_heads_if_asked(keys);
  m.attention.qkv_bias = keys.flag("use_qkv_bias", false);
  const Mixture experts = read_mixture(
      keys, m.sizes, m.mlp, "n_routed_experts",
      {.count = 128, .chosen = 8, .size = 1408, .renormalised = true, .grouped = true});
  return m.model(experts, biased_experts(experts, m.mlp));
}

LanguageModel dots1(Keys& keys) {
  keys.defaults(R"({"first_k_dense_replace": 0})");
  keys.only("scoring_func", "noaux_tc");
  keys.only("use_sliding_window", false);
  Llama m(keys);
  m.attention.norm_heads(keys);
  m.attention.set_bias(keys.flag("attention_bias", false));
  m.attention.windows = windows_by_layer(keys, m.sizes.layers, 0, 62);
  const Mixture experts =
      read_mixture(keys, m.sizes, m.mlp, "n_routed_experts", {.size = 1408, .grouped = true});
  return m.model(experts, biased_experts(experts, m.mlp));
}

constexpr Architecture kRows[] = {
    {"GlmForCausalLM", glm},     {"Glm4ForCausalLM", glm4v, is_glm4v},
    {"Glm4ForCausalLM", glm4},   {"Glm4MoeForCausalLM", glm4_moe},
    {"Dots1ForCausalLM", dots1},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::glm4
