// SPDX-License-Identifier: Apache-2.0
// GLM-4 in transformers' form: neighbouring columns of the first half of each head turn; gate and
// up in one matrix; in those of 2025 norms also behind attention and MLP. GLM-4.5: experts as
// DeepSeek-V3's; halves of the first half of each head turn. dots.llm1: the same, of whole heads.
#include "models/config_keys.h"
#include "models/expert_blocks.h"
#include "models/families/families.h"

namespace lockstep::families::glm4 {
namespace {

Value stacked_glm4_mlp(Graph& g, const Config& c, Value x, int) {
  return stacked_mlp(g, c, x, "mlp.gate_up_proj", "mlp.down_proj");
}

void build_glm(Graph& g, const Config& c) { build_layers(g, c, {.mlp = stacked_glm4_mlp}); }

void build_glm4(Graph& g, const Config& c) {
  build_layers(g, c,
               {.mlp = stacked_glm4_mlp,
                .attention_out_norm = "post_self_attn_layernorm",
                .mlp_out_norm = "post_mlp_layernorm"});
}

void build_glm4_moe(Graph& g, const Config& c) { build_layers(g, c, {.mlp = old_biased_experts}); }

// Glm4ForCausalLM with biases and whole heads that turn, each hidden_size / heads wide.
bool is_glm4v(const Json& json) { return json.value("model_type", Json()) == "glm4v_text"; }

absl::Status check_dots1(const Json& json) {
  const OnlyValue only[] = {{"scoring_func", "noaux_tc"}, {"use_sliding_window", false}};
  return check_only(json, only);
}

constexpr Architecture kRows[] = {
    {"GlmForCausalLM",
     build_glm,
     {.qkv_bias = true,
      .norm_eps = 1.5625e-7,
      .partial_rotary = 0.5,
      .rope_interleaved = true,
      .kv_heads = 2,
      .head_dim = 128,
      .keys = {"use_qkv_bias"},
      .names = {{{"attention_bias", "use_qkv_bias"}}}}},
    {"Glm4ForCausalLM",
     build_glm4,
     {.qkv_bias = true,
      .norm_eps = 1e-5,
      .partial_rotary = 1,
      .rope_interleaved = true,
      .kv_heads = 2,
      .keys = {"use_qkv_bias"},
      .names = {{{"attention_bias", "use_qkv_bias"}}}},
     is_glm4v},
    {"Glm4ForCausalLM",
     build_glm4,
     {.norm_eps = 1e-5,
      .partial_rotary = 0.5,
      .rope_interleaved = true,
      .kv_heads = 2,
      .head_dim = 128,
      .keys = {"use_qkv_bias"},
      .names = {{{"attention_bias", "use_qkv_bias"}}}}},
    {"Glm4MoeForCausalLM",
     build_glm4_moe,
     {.qk_norm = kHeadNorms,
      .norm_eps = 1e-5,
      .partial_rotary = 0.5,
      .kv_heads = 8,
      .keys = {"use_qkv_bias", "use_qk_norm"},
      .names = {{{"attention_bias", "use_qkv_bias"}}},
      .experts = {.count_key = "n_routed_experts",
                  .count = 128,
                  .chosen = 8,
                  .size = 1408,
                  .renormalised = true,
                  .grouped = true}}},
    {"Dots1ForCausalLM",
     build_glm4_moe,
     {.qk_norm = kHeadNorms,
      .window = WindowRule::kByLayer,
      .max_window_layers = 62,
      .defaults = R"({"first_k_dense_replace": 0})",
      .keys = {"attention_bias", "scoring_func", "use_sliding_window", "sliding_window",
               "max_window_layers", "layer_types"},
      .experts = {.count_key = "n_routed_experts", .size = 1408, .grouped = true},
      .check = check_dots1}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::glm4
