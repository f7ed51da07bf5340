// SPDX-License-Identifier: Apache-2.0
// Families with recurrent layers: which layers are recurrent, their sizes, and what is refused.
#include <gtest/gtest.h>

#include <string>

#include "tests/models/described_config.h"

namespace lockstep {
namespace {

// LFM2-1.2B as published, with fewer layers.
constexpr char kLfm2[] = R"({"architectures": ["Lfm2ForCausalLM"], "block_auto_adjust_ff_dim": true,
  "block_dim": 2048, "block_ff_dim": 12288, "block_ffn_dim_multiplier": 1.0,
  "block_mlp_init_scale": 1.0, "block_multiple_of": 256, "block_norm_eps": 1e-05,
  "block_out_init_scale": 1.0, "block_use_swiglu": true, "block_use_xavier_init": true,
  "conv_L_cache": 3, "conv_bias": false, "conv_dim": 2048, "conv_dim_out": 2048,
  "conv_use_xavier_init": true, "full_attn_idxs": [2, 5], "hidden_size": 2048,
  "max_position_embeddings": 128000, "model_type": "lfm2", "norm_eps": 1e-05,
  "num_attention_heads": 32, "num_heads": 32, "num_hidden_layers": 6, "num_key_value_heads": 8,
  "rope_theta": 1000000.0, "torch_dtype": "bfloat16", "use_pos_enc": true, "vocab_size": 65536})";

TEST(Lfm2Test, ThePublishedConfigIsRead) {
  const Described config = config_of(kLfm2);
  EXPECT_EQ(config.attends, (std::vector<bool>{false, false, true, false, false, true}));
  EXPECT_EQ(config.intermediate_size, 8192);
  EXPECT_EQ(config.taps, 3);
  EXPECT_TRUE(config.tie_word_embeddings);
}

TEST(Lfm2Test, LayerTypesAreFollowedAndTheWidthOfTheMlpIsRoundedUp) {
  const Described config = config_of(kLfm2, R"({"full_attn_idxs": null, "layer_types": ["conv",
      "full_attention", "conv", "conv", "conv", "conv"], "block_ffn_dim_multiplier": 1.01})");
  EXPECT_TRUE(config.attends[1]);
  EXPECT_FALSE(config.attends[5]);
  EXPECT_EQ(config.intermediate_size, 8448);
  const Described all = config_of(kLfm2, R"({"full_attn_idxs": null})");
  EXPECT_EQ(all.attends, std::vector<bool>(6, true));
  EXPECT_EQ(config_of(kLfm2, R"({"block_auto_adjust_ff_dim": false})").intermediate_size, 12288);
}

TEST(Lfm2Test, UnsupportedKeysAreNamed) {
  expect_refused(kLfm2, R"({"conv_L_cache": 1})", "conv_L_cache: must be an integer from 2 to 16");
  expect_refused(kLfm2, R"({"conv_L_cache": 17})", "conv_L_cache: must be an integer from 2 to 16");
  expect_refused(kLfm2, R"({"full_attn_idxs": [6]})", "full_attn_idxs: must be layers from 0 to 5");
  expect_refused(kLfm2, R"({"conv_dim": 1024})", "conv_dim and hidden_size");
  expect_refused(kLfm2, R"({"use_pos_enc": false})", "use_pos_enc: false is not supported");
  expect_refused(kLfm2, R"({"block_ffn_dim_multiplier": 0})",
                 "block_ffn_dim_multiplier: must give an MLP");
  expect_refused(kLfm2, R"({"layer_types": ["conv", "conv", "conv", "conv", "conv", "mamba"]})",
                 "is not supported; supported: full_attention, conv");
}

constexpr char kQwen[] = R"({"architectures": ["Qwen3_5ForCausalLM"], "vocab_size": 320,
  "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 6, "num_attention_heads": 4,
  "num_key_value_heads": 2, "max_position_embeddings": 512})";

TEST(Qwen35Test, EveryFourthLayerHasAttentionByDefault) {
  const Described config = config_of(kQwen);
  EXPECT_EQ(config.attends, (std::vector<bool>{false, false, false, true, false, false}));
  EXPECT_EQ(config.recurrence.heads(), 32);
  EXPECT_EQ(config.recurrence.key_heads(), 16);
  EXPECT_EQ(config.recurrence.k_dim(), 128);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.rotary.rotary_dim(), 64);
  EXPECT_EQ(config.norm_plus, 1);
  EXPECT_TRUE(config_of(kQwen, R"({"full_attention_interval": 2})").attends[1]);
}

TEST(Qwen35Test, UnsupportedKeysAreNamed) {
  expect_refused(kQwen, R"({"attn_output_gate": false})", "attn_output_gate: false");
  expect_refused(kQwen, R"({"linear_num_key_heads": 5})",
                 "linear_num_value_heads: must be a multiple");
  expect_refused(kQwen, R"({"linear_conv_kernel_dim": 1})",
                 "linear_conv_kernel_dim: must be an integer from 2");
  expect_refused(kQwen, R"({"linear_key_head_dim": 2048})", "linear_key_head_dim: must be");
  expect_refused(kQwen, R"({"intermediate_size": null})", "intermediate_size: ");
  expect_refused(kQwen, R"({"num_experts": 4})", "num_experts: unknown here");
}

}  // namespace
}  // namespace lockstep
