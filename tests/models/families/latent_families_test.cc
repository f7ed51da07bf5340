// SPDX-License-Identifier: Apache-2.0
// Families with latent attention: their config.json as published, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/models/described_config.h"

namespace lockstep {
namespace {

// DeepSeek-V3 as published, except its number of layers and its weights in float8.
constexpr char kV3[] = R"({"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "aux_loss_alpha": 0.001, "bos_token_id": 0, "eos_token_id": 1,
  "ep_size": 1, "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168,
  "initializer_range": 0.02, "intermediate_size": 18432, "kv_lora_rank": 512,
  "max_position_embeddings": 163840, "model_type": "deepseek_v3", "moe_intermediate_size": 2048,
  "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1,
  "norm_topk_prob": true, "num_attention_heads": 128, "num_experts_per_tok": 8,
  "num_hidden_layers": 4, "num_key_value_heads": 128, "num_nextn_predict_layers": 1,
  "pretraining_tp": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "rms_norm_eps": 1e-06, "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40,
  "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"},
  "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "seq_aux": true,
  "tie_word_embeddings": false, "topk_group": 4, "topk_method": "noaux_tc",
  "torch_dtype": "bfloat16", "transformers_version": "4.33.1", "use_cache": true,
  "v_head_dim": 128, "vocab_size": 129280})";

TEST(DeepseekV3Test, ThePublishedConfigIsRead) {
  const Described config = config_of(kV3);
  const auto shape = [](const std::string& name) {
    return tensor_of("model.layers.0.self_attn." + name + ".weight", kV3);
  };
  EXPECT_EQ(shape("q_b_proj"), (std::vector<int64_t>{128 * (128 + 64), 1536}));
  EXPECT_EQ(shape("kv_a_proj_with_mqa"), (std::vector<int64_t>{512 + 64, 7168}));
  EXPECT_EQ(shape("o_proj"), (std::vector<int64_t>{7168, 128 * 128}));
  EXPECT_EQ(config.rotary.rotary_dim(), 64);
  EXPECT_TRUE(config.rotary.interleaved());
  EXPECT_FLOAT_EQ(config.rope.factor(), 1);
  const double mscale = 0.1 * std::log(40.0) + 1;
  EXPECT_FLOAT_EQ(config.attention_scale, static_cast<float>(mscale * mscale / std::sqrt(192.0)));
  EXPECT_EQ(config.has_router, (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(config.route.scale(), 2.5f);
  EXPECT_EQ(config.context, 163840);
}

TEST(DeepseekV3Test, QueriesMayBeMadeFromTheLayersInput) {
  Json json = Json::parse(kV3);
  json["q_lora_rank"] = nullptr;  // null means none; a missing key would have a default.
  EXPECT_EQ(tensor_of("model.layers.0.self_attn.q_proj.weight", json.dump()),
            (std::vector<int64_t>{128 * (128 + 64), 7168}));
  const Described plain = config_of(kV3, R"({"rope_scaling": null})");
  EXPECT_FLOAT_EQ(plain.attention_scale, static_cast<float>(1 / std::sqrt(192.0)));
}

TEST(DeepseekV3Test, UnsupportedModelsAreRefused) {
  expect_refused(kV3, R"({"kv_lora_rank": 0})", "kv_lora_rank: must be");
  expect_refused(kV3, R"({"kv_lora_rank": 961})", "kv_lora_rank: must be");
  expect_refused(kV3, R"({"v_head_dim": 1025})", "v_head_dim: must be");
  expect_refused(kV3, R"({"qk_nope_head_dim": "a"})", "qk_nope_head_dim: ");
  expect_refused(kV3, R"({"q_lora_rank": -1})", "q_lora_rank: must be");
  expect_refused(kV3, R"({"qk_rope_head_dim": 0})", "qk_rope_head_dim: must be");
  expect_refused(kV3, R"({"qk_head_dim": 128})", "qk_head_dim: must be");
  expect_refused(kV3, R"({"topk_method": "greedy"})", "topk_method");
  expect_refused(kV3, R"({"scoring_func": "softmax"})", "scoring_func");
  expect_refused(kV3, R"({"moe_layer_freq": 2})", "moe_layer_freq");
  expect_refused(kV3, R"({"rope_interleave": false})", "rope_interleave");
  expect_refused(kV3, R"({"index_topk": 2048})", "index_topk");
  expect_refused(kV3, R"({"rope_scaling": {"type": "yarn", "mscale_all_dim": "a"}})",
                 "rope_scaling.mscale_all_dim");
}

// DeepSeek-V2 as published, with fewer layers.
constexpr char kV2[] = R"({"architectures": ["DeepseekV2ForCausalLM"], "attention_bias": false,
  "aux_loss_alpha": 0.003, "ep_size": 1, "first_k_dense_replace": 1, "hidden_act": "silu",
  "hidden_size": 5120, "intermediate_size": 12288, "kv_lora_rank": 512,
  "max_position_embeddings": 163840, "model_type": "deepseek_v2", "moe_intermediate_size": 1536,
  "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 160, "n_shared_experts": 2,
  "norm_topk_prob": false, "num_attention_heads": 128, "num_experts_per_tok": 6,
  "num_hidden_layers": 3, "num_key_value_heads": 128, "q_lora_rank": 1536,
  "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
  "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707,
  "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096, "type": "yarn"},
  "rope_theta": 10000, "routed_scaling_factor": 16.0, "scoring_func": "softmax", "seq_aux": true,
  "topk_group": 3, "topk_method": "group_limited_greedy", "torch_dtype": "bfloat16",
  "v_head_dim": 128, "vocab_size": 102400})";

TEST(DeepseekV2Test, ThePublishedConfigIsRead) {
  const Described config = config_of(kV2);
  EXPECT_EQ(config.route.groups(), 8);
  EXPECT_EQ(config.route.chosen_groups(), 3);
  EXPECT_EQ(tensor_of("model.layers.1.mlp.shared_experts.up_proj.weight", kV2)[0], 3072);
  EXPECT_FALSE(config.route.renormalised());
  EXPECT_FLOAT_EQ(config.rope.factor(), 1);
}

TEST(DeepseekV2Test, UnsupportedModelsAreRefused) {
  expect_refused(kV2, R"({"topk_method": "noaux_tc"})", "topk_method");
  expect_refused(kV2, R"({"topk_method": "greedy"})", "n_group");
  expect_refused(kV2, R"({"norm_topk_prob": true})", "norm_topk_prob");
}

TEST(DeepseekV32Test, TheContextEndsWhereTheIndexerWouldSelectKeys) {
  const std::string sparse = R"({"architectures": ["DeepseekV32ForCausalLM"], "index_topk": 2048,
      "index_n_heads": 64, "index_head_dim": 128})";
  const Described config = config_of(kV3, sparse);
  EXPECT_EQ(config.context, 2048);
  EXPECT_EQ(config.rope.SerializeAsString(), config_of(kV3).rope.SerializeAsString());
}

}  // namespace
}  // namespace lockstep
