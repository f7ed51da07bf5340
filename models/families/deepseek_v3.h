// SPDX-License-Identifier: Apache-2.0
// DeepSeek-V3, from which others differ in numbers and in what else they have.
#pragma once

#include "models/architecture.h"
#include "models/config_keys.h"
#include "models/expert_blocks.h"
#include "models/latent_blocks.h"

namespace lockstep::families {

inline void build_deepseek_v3(Graph& g, const Config& c) {
  build_layers(g, c, {.attention = old_latent_attention, .mlp = old_biased_experts});
}

inline absl::Status check_deepseek_v3(const Json& json) {
  const OnlyValue only[] = {{"moe_layer_freq", 1},
                            {"scoring_func", "sigmoid"},
                            {"topk_method", "noaux_tc"},
                            {"rope_interleave", true}};
  return check_only(json, only);
}

inline constexpr Family kDeepseekV3 = {
    .rope_interleaved = true,
    .defaults = R"({"head_dim": 64, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
        "v_head_dim": 128, "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5,
        "first_k_dense_replace": 3})",
    .keys = {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim", "qk_head_dim",
             "attention_bias", "rope_interleave", "topk_method", "scoring_func", "moe_layer_freq"},
    // The reference sets head_dim to it, whatever the file says.
    .names = {{{"qk_rope_head_dim", "head_dim", /*wins=*/true}}},
    .experts = {.count_key = "n_routed_experts",
                .count = 256,
                .chosen = 8,
                .size = 2048,
                .renormalised = true,
                .grouped = true},
    .check = check_deepseek_v3,
    .refine = read_latent};

}  // namespace lockstep::families
