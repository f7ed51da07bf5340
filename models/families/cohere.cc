// SPDX-License-Identifier: Apache-2.0
// Command R and its successors: Llama's blocks in parallel, layer norms without biases.
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::cohere {
namespace {

absl::Status check_cohere(const Json& json) {
  const OnlyValue only[] = {{"position_embedding_type", "rope_gptj"},
                            {"order_of_interleaved_layers", "local_attn_first"},
                            {"rotary_pct", 1.0},
                            {"use_embedding_sharing", true},
                            {"use_gated_activation", true},
                            {"use_parallel_block", true}};
  return check_only(json, only);
}

constexpr Architecture kRows[] = {
    {"CohereForCausalLM",
     old_build_llama,
     {.tie_word_embeddings = true,
      .qk_norm = {.over = QkNorm::Over::kHead, .centred = true, .by_head = true},
      .layer_norm = true,
      .norm_bias = false,
      .parallel = true,
      .parallel_norms = 1,
      .norm_eps = 1e-5,
      .rope_theta = 500000,
      .rope_interleaved = true,
      .logit_scale = 0.0625,
      .keys = {"attention_bias", "logit_scale", "use_qk_norm"},
      .names = {{{"layer_norm_eps", "rms_norm_eps"}}}}},
    {"Cohere2ForCausalLM",
     old_build_llama,
     {.tie_word_embeddings = true,
      .layer_norm = true,
      .norm_bias = false,
      .parallel = true,
      .parallel_norms = 1,
      .norm_eps = 1e-5,
      .rope_interleaved = true,
      .window = WindowRule::kPattern,
      .default_window = 4096,
      .full_every = 4,
      .only_windows_turn = true,
      .logit_scale = 0.0625,
      .keys = {"attention_bias", "logit_scale", "sliding_window", "sliding_window_pattern",
               "layer_types", "layer_switch", "position_embedding_type",
               "order_of_interleaved_layers", "rotary_pct", "use_embedding_sharing",
               "use_gated_activation", "use_parallel_block", "use_parallel_embedding"},
      .names = {{{"layer_norm_eps", "rms_norm_eps"}, {"layer_switch", "sliding_window_pattern"}}},
      .check = check_cohere}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::cohere
