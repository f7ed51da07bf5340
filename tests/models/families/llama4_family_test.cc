// SPDX-License-Identifier: Apache-2.0
// Llama 4 and Mistral 4: their config.json as published, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/models/described_config.h"

namespace lockstep {
namespace {

// Llama 4 Maverick's text part as published, except its number of layers.
constexpr char kMaverick[] = R"({"architectures": ["Llama4ForCausalLM"],
  "attention_bias": false, "attention_chunk_size": 8192, "attention_dropout": 0.0,
  "attn_scale": 0.1, "attn_temperature_tuning": 4, "bos_token_id": 200000,
  "eos_token_id": [200001, 200007, 200008], "floor_scale": 8192, "for_llm_compressor": false,
  "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120, "initializer_range": 0.02,
  "interleave_moe_layer_step": 2, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
  "max_position_embeddings": 1048576, "model_type": "llama4_text", "moe_layers": [1, 3],
  "no_rope_layers": [], "num_attention_heads": 40, "num_experts_per_tok": 1,
  "num_hidden_layers": 4, "num_key_value_heads": 8, "num_local_experts": 128,
  "output_router_logits": false, "pad_token_id": 200018, "rms_norm_eps": 1e-05,
  "rope_scaling": null, "rope_theta": 500000.0, "router_aux_loss_coef": 0.001,
  "router_jitter_noise": 0.0, "torch_dtype": "bfloat16", "use_cache": true, "use_qk_norm": false,
  "vocab_size": 202048})";

TEST(Llama4Test, ThePublishedConfigIsRead) {
  const Described config = config_of(kMaverick);
  EXPECT_EQ(config.rotates, (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(config.chunks, (std::vector<int64_t>{8192, 8192, 8192, 0}));
  EXPECT_EQ(config.has_router, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(config.experts.size, 8192);
  EXPECT_EQ(tensor_of("model.layers.1.feed_forward.shared_expert.up_proj.weight", kMaverick)[0],
            8192);
  EXPECT_EQ(config.intermediate_size, 16384);
  EXPECT_FALSE(config.normed_q);
  EXPECT_TRUE(config.rotary.interleaved());
  // Positions 0 to 8190 have scale 1, and the next 8192 positions a slightly larger scale.
  EXPECT_EQ(config.query_scales.length(), 8192);
  EXPECT_EQ(config.query_scales.offset(), 1);
  ASSERT_EQ(config.query_scales.scales_size(), 129u);
  EXPECT_FLOAT_EQ(config.query_scales.scales(0), 1);
  EXPECT_FLOAT_EQ(config.query_scales.scales(1), static_cast<float>(1 + 0.1 * std::log(2.0)));
}

TEST(Llama4Test, ChunksAndExpertsAreGivenByListOrByStep) {
  const Described by_step = config_of(kMaverick, R"({"moe_layers": null, "use_qk_norm": true,
      "attn_temperature_tuning": false, "no_rope_layers": [1, 0, 1, 0]})");
  EXPECT_EQ(by_step.has_router, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(by_step.chunks, (std::vector<int64_t>{8192, 0, 8192, 0}));
  EXPECT_TRUE(by_step.normed_q);
  EXPECT_TRUE(by_step.query_scales.scales().empty());
  const Described by_type = config_of(kMaverick, R"({"layer_types": ["full_attention",
      "chunked_attention", "full_attention", "full_attention"], "moe_layers": []})");
  EXPECT_EQ(by_type.chunks, (std::vector<int64_t>{0, 8192, 0, 0}));
  EXPECT_EQ(by_type.has_router, std::vector<bool>(4, false));
}

// Llama 4 Scout has this boundary: no frequencies are between the scaled and the unscaled ones.
TEST(Llama4Test, RotaryScalingMayHaveASharpBoundary) {
  const Described config = config_of(kMaverick, R"({"rope_scaling": {"factor": 16.0,
      "high_freq_factor": 1.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
      "rope_type": "llama3"}})");
  const auto& frequencies = config.rope.inv_freq();
  EXPECT_FLOAT_EQ(frequencies[0], 1);
  EXPECT_FLOAT_EQ(frequencies[63], std::pow(500000.0f, -126.0f / 128) / 16);
}

TEST(Llama4Test, UnsupportedModelsAreRefused) {
  expect_refused(kMaverick, R"({"num_experts_per_tok": 2})", "num_experts_per_tok: ");
  expect_refused(kMaverick, R"({"moe_layers": [4]})", "moe_layers: must be layers from 0 to 3");
  expect_refused(kMaverick, R"({"moe_layers": 1})", "moe_layers: must be a list");
  expect_refused(kMaverick, R"({"attention_chunk_size": 0})", "attention_chunk_size: must be");
  expect_refused(kMaverick, R"({"layer_types": ["full_attention"]})",
                 "layer_types: must be a list of 4 layers, found 1");
  expect_refused(kMaverick, R"({"layer_types": ["full_attention", "full_attention",
      "sliding_attention", "full_attention"]})",
                 "layer_types[2]: ");
  expect_refused(kMaverick, R"({"attn_temperature_tuning": "yes"})", "attn_temperature_tuning: ");
  expect_refused(kMaverick, R"({"attn_scale": -1.0})", "attn_scale: must be");
  expect_refused(kMaverick, R"({"floor_scale": 2})", "floor_scale: must be at least");
}

// The config as transformers writes it.
constexpr char kMistral4[] = R"({"architectures": ["Mistral4ForCausalLM"],
  "attention_bias": false, "first_k_dense_replace": 0, "hidden_act": "silu", "hidden_size": 4096,
  "intermediate_size": 12288, "kv_lora_rank": 256, "max_position_embeddings": 1048576,
  "moe_intermediate_size": 2048, "n_group": 1, "n_routed_experts": 128, "n_shared_experts": 1,
  "norm_topk_prob": true, "num_attention_heads": 32, "num_experts_per_tok": 4,
  "num_hidden_layers": 2, "num_key_value_heads": 32, "q_lora_rank": 1024, "qk_head_dim": 128,
  "qk_nope_head_dim": 64, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06, "rope_interleave": true,
  "rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 128.0,
    "llama_4_scaling_beta": 0.1, "max_position_embeddings": 1048576, "mscale": 1.0,
    "mscale_all_dim": 1.0, "original_max_position_embeddings": 8192,
    "partial_rotary_factor": 0.5, "rope_theta": 10000.0, "type": "yarn"},
  "routed_scaling_factor": 1.0, "topk_group": 1, "v_head_dim": 128, "vocab_size": 131072})";

TEST(Mistral4Test, TheConfigOfTheReferenceIsRead) {
  for (const char* patch : {"{}", R"({"rope_parameters": null})"}) {
    const Described config = config_of(kMistral4, patch);
    EXPECT_EQ(config.rotary.rotary_dim(), 64);
    EXPECT_FLOAT_EQ(config.rope.factor(), 1);
    EXPECT_EQ(config.query_scales.length(), 8192);
    EXPECT_EQ(config.query_scales.scales_size(), 128u);
    const double mscale = 0.1 * std::log(128.0) + 1;
    EXPECT_FLOAT_EQ(config.attention_scale, static_cast<float>(mscale * mscale / std::sqrt(128.0)));
    EXPECT_EQ(config.has_router, std::vector<bool>(2, true));
  }
}

TEST(Mistral4Test, UnsupportedModelsAreRefused) {
  expect_refused(kMistral4, R"({"rope_interleave": false})", "rope_interleave: false");
  expect_refused(kMistral4, R"({"scoring_func": "sigmoid"})", "scoring_func: unknown here");
}

}  // namespace
}  // namespace lockstep
