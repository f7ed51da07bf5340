// SPDX-License-Identifier: Apache-2.0
// Gemma: Llama's blocks, with norms before and after each in Gemma 2 and 3.
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::gemma {
namespace {

void build_gemma2(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention_out_norm = "post_attention_layernorm",
                .mlp_norm = "pre_feedforward_layernorm",
                .mlp_out_norm = "post_feedforward_layernorm"});
}

// The reference has the key attn_logit_softcapping and caps no scores by it.
absl::Status uncap_scores(const Json&, Config& config) {
  config.attention_cap = 0;
  return absl::OkStatus();
}

// Published wrappers' text_config says no more than what differs.
constexpr char kGemma3Defaults[] = R"({"vocab_size": 262208, "hidden_size": 2304,
    "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
    "max_position_embeddings": 131072})";

constexpr Architecture kRows[] = {
    {"GemmaForCausalLM",
     build_llama,
     {.tie_word_embeddings = true,
      .norm_plus_one = true,
      .embedding_by_sqrt_hidden = true,
      .activation = "gelu_pytorch_tanh",
      .kv_heads = 16,
      .head_dim = 256,
      .keys = {"attention_bias"},
      .names = {{{"hidden_activation", "hidden_act"}}}}},
    {"Gemma2ForCausalLM",
     build_gemma2,
     {.tie_word_embeddings = true,
      .norm_plus_one = true,
      .embedding_by_sqrt_hidden = true,
      .activation = "gelu_pytorch_tanh",
      .query_pre_attn_scalar = 256,
      .attention_cap = 50,
      .logits_cap = 30,
      .kv_heads = 4,
      .head_dim = 256,
      .window = WindowRule::kPattern,
      .default_window = 4096,
      .full_every = 2,
      .keys = {"attention_bias", "query_pre_attn_scalar", "attn_logit_softcapping",
               "final_logit_softcapping", "sliding_window", "layer_types"},
      .names = {{{"hidden_activation", "hidden_act"}, {"sliding_window_size", "sliding_window"}}}}},
    {"Gemma3ForCausalLM",
     build_gemma2,
     {.tie_word_embeddings = true,
      .qk_norm = kHeadNorms,
      .norm_plus_one = true,
      .embedding_by_sqrt_hidden = true,
      .activation = "gelu_pytorch_tanh",
      .query_pre_attn_scalar = 256,
      .rope_theta = 1000000,
      .window_rope_theta = 10000,
      .kv_heads = 4,
      .head_dim = 256,
      .window = WindowRule::kPattern,
      .default_window = 4096,
      .full_every = 6,
      .defaults = kGemma3Defaults,
      .keys = {"attention_bias", "query_pre_attn_scalar", "attn_logit_softcapping",
               "final_logit_softcapping", "sliding_window", "sliding_window_pattern",
               "rope_local_base_freq", "layer_types"},
      .names = {{{"hidden_activation", "hidden_act"}}},
      .refine_layers = uncap_scores}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::gemma
