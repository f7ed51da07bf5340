// SPDX-License-Identifier: Apache-2.0
// Hunyuan's dense models, Nemotron and Helium: the defaults of missing keys, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/models/described_config.h"

namespace lockstep {
namespace {

constexpr char kHunyuan[] = R"({"architectures": ["HunYuanDenseV1ForCausalLM"], "vocab_size": 320,
  "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
  "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32,
                   "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}})";

TEST(HunyuanTest, DefaultsAreThoseOfTheReference) {
  const Described config = config_of(kHunyuan);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.context, 2048);
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-5f);
  EXPECT_FALSE(config.tie_word_embeddings || config.qkv_bias || config.output_bias);
  EXPECT_FALSE(config.mlp_bias || config.layer_norm);
  EXPECT_EQ(config_of(kHunyuan, R"({"attention_head_dim": 24})").head_dim, 24);
  const Described biased = config_of(kHunyuan, R"({"attention_bias": true})");
  EXPECT_TRUE(biased.qkv_bias && biased.output_bias && !biased.mlp_bias);
}

TEST(HunyuanTest, AFixedAlphaMultipliesTheBaseForEveryLength) {
  const Described config = config_of(kHunyuan);
  EXPECT_EQ(config.rope.dynamic_length(), 0);
  EXPECT_EQ(config.rope.lengths_size(), 0);
  const double base = 10000 * std::pow(1000.0, 16.0 / 14.0);
  ASSERT_EQ(config.rope.inv_freq_size(), 8);
  for (int i = 0; i < 8; ++i) {
    EXPECT_FLOAT_EQ(config.rope.inv_freq(i), std::pow(base, -2 * i / 16.0));
  }
  const Described dynamic =
      config_of(kHunyuan, R"({"rope_scaling": null, "rope_parameters": {"rope_type": "dynamic",
                              "factor": 2.0}})");
  EXPECT_EQ(dynamic.rope.dynamic_length(), 2048);
}

TEST(HunyuanTest, UnsupportedKeysAreNamed) {
  const auto refused = [](const char* patch, const char* says) {
    SCOPED_TRACE(patch);
    expect_refused(kHunyuan, patch, says);
  };
  refused(R"({"rope_scaling": {"factor": 2.0}})",
          "rope_scaling.factor: 2 is not supported beside alpha; supported: 1");
  refused(R"({"rope_scaling": {"alpha": 0}})", "rope_scaling.alpha: must be a number from 1 to");
  refused(R"({"rope_scaling": {"alpha": null}})", "--ignore-config rope_scaling.beta_fast");
  refused(R"({"rope_scaling": {"type": "linear", "factor": 2}})",
          "--ignore-config rope_scaling.alpha");
  refused(R"({"head_dim": 2})", "rope_scaling.alpha: must be a head_dim above 2, found 2");
  refused(R"({"partial_rotary_factor": 0.5})", "partial_rotary_factor: 0.5 is not supported here");
  refused(R"({"head_dim": 16, "attention_head_dim": 8})",
          "attention_head_dim and head_dim are both there and differ");
  refused(R"({"use_qk_norm": false})", "use_qk_norm: false is not supported; supported: true");
  refused(R"({"num_experts": 8})", "num_experts: an integer (8) is not supported; supported: 1");
  refused(R"({"norm_type": "layer"})",
          "norm_type: a string (\"layer\") is not supported; supported: \"rms\"");
  refused(R"({"use_rotary_pos_emb": false})", "use_rotary_pos_emb: false is not supported");
  refused(R"({"use_cla": true})", "use_cla: unknown here");
  refused(R"({"mlp_bias": true})", "mlp_bias: unknown here");
  refused(R"({"sliding_window": 128})", "sliding_window: unknown here");
}

// Other families still refuse an alpha.
TEST(HunyuanTest, OnlyThisFamilyHasAnAlpha) {
  std::string llama = kHunyuan;
  llama.replace(llama.find("HunYuanDenseV1"), 14, "Llama");
  expect_refused(llama, R"({"max_position_embeddings": 128})",
                 "--ignore-config rope_scaling.alpha");
}

constexpr char kNemotron[] = R"({"architectures": ["NemotronForCausalLM"], "vocab_size": 320,
  "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 160})";

TEST(NemotronTest, DefaultsAreThoseOfTheReference) {
  const Described config = config_of(kNemotron);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 24);
  EXPECT_EQ(config.rotary.rotary_dim(), 12);
  EXPECT_EQ(config.context, 4096);
  EXPECT_EQ(config.norm_plus, 1);
  EXPECT_EQ(config.activation, Function::kReluSquared);
  EXPECT_TRUE(config.layer_norm && config.norm_bias);
  EXPECT_FALSE(config.tie_word_embeddings || config.qkv_bias || config.mlp_bias);
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-5f);
  EXPECT_FLOAT_EQ(config_of(kNemotron, R"({"norm_eps": 1e-4})").norm_eps, 1e-4f);
}

TEST(NemotronTest, EveryNormWeightIsStoredWithoutTheAddedOne) {
  const absl::StatusOr<ModelDescription> model = describe_config(kNemotron);
  ASSERT_TRUE(model.ok()) << model.status();
  int norms = 0;
  for (const Parameter& parameter : model->graph.parameters()) {
    if (parameter.role != program::NORM) continue;
    ++norms;
    EXPECT_EQ(parameter.pieces[0].plus(), 1) << parameter.name;
  }
  EXPECT_EQ(norms, 2 * 2 + 1);
}

TEST(NemotronTest, TheRotatedPartOfAHeadHasThreeNames) {
  for (const char* key : {"partial_rotary_factor", "rope_percent", "rope_percentage"}) {
    const std::string patch = std::string("{\"") + key + "\": 0.25}";
    EXPECT_EQ(config_of(kNemotron, patch).rotary.rotary_dim(), 6) << key;
  }
  const char* within =
      R"({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1}})";
  EXPECT_EQ(config_of(kNemotron, within).rotary.rotary_dim(), 24);
  // "proportional" rotates whole heads. Then partial_rotary_factor is the part of the frequencies
  // that are not 0.
  const Described beside =
      config_of(kNemotron, R"({"rope_parameters": {"rope_type": "proportional"}})");
  EXPECT_GT(beside.rope.inv_freq(5), 0);
  EXPECT_EQ(beside.rope.inv_freq(6), 0);
}

TEST(NemotronTest, UnsupportedKeysAreNamed) {
  expect_refused(kNemotron, R"({"rope_percent": 0.5, "partial_rotary_factor": 0.25})",
                 "rope_percent and partial_rotary_factor are both there and differ");
  expect_refused(kNemotron, R"({"partial_rotary_factor": 0.3})",
                 "partial_rotary_factor: 0.3 of a head_dim of 24");
  expect_refused(kNemotron, R"({"hidden_act": "tanh"})", "hidden_act: \"tanh\" is not supported");
  expect_refused(kNemotron, R"({"sliding_window": 128})", "sliding_window: unknown here");
  expect_refused(kNemotron, R"({"layer_norm_eps": 1e-6})", "layer_norm_eps: unknown here");
}

constexpr char kHelium[] = R"({"architectures": ["HeliumForCausalLM"], "vocab_size": 320,
  "hidden_size": 2560, "num_hidden_layers": 2, "num_attention_heads": 20,
  "intermediate_size": 96})";

TEST(HeliumTest, DefaultsAreThoseOfTheReference) {
  const Described config = config_of(kHelium);
  EXPECT_EQ(config.kv_heads, 20);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.context, 4096);
  EXPECT_EQ(config.activation, Function::kSilu);
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-8f);
  EXPECT_FALSE(config.tie_word_embeddings || config.qkv_bias || config.output_bias);
  EXPECT_FALSE(config.mlp_bias || config.layer_norm);
  EXPECT_EQ(config_of(kHelium, R"({"num_key_value_heads": 4})").kv_heads, 4);
}

TEST(HeliumTest, NeighbouringColumnsAreRotatedWithABaseOf100000) {
  const Described config = config_of(kHelium);
  EXPECT_TRUE(config.rotary.interleaved());
  EXPECT_EQ(config.rotary.rotary_dim(), 128);
  EXPECT_FLOAT_EQ(config.rope.inv_freq(1), std::pow(100000.0, -2 / 128.0));
  const Described based = config_of(kHelium, R"({"rope_theta": 20000.0})");
  EXPECT_FLOAT_EQ(based.rope.inv_freq(1), std::pow(20000.0, -2 / 128.0));
}

TEST(HeliumTest, TheOutputOfAttentionNeverHasABias) {
  const Described attention = config_of(kHelium, R"({"attention_bias": true})");
  EXPECT_TRUE(attention.qkv_bias && !attention.output_bias && !attention.mlp_bias);
  const Described mlp = config_of(kHelium, R"({"mlp_bias": true})");
  EXPECT_TRUE(mlp.mlp_bias && !mlp.qkv_bias && !mlp.output_bias);
}

TEST(HeliumTest, UnsupportedKeysAreNamed) {
  expect_refused(kHelium, R"({"num_key_value_heads": 3})",
                 "num_key_value_heads: must be a divisor of num_attention_heads (20), found 3");
  expect_refused(kHelium, R"({"hidden_act": "tanh"})", "hidden_act: \"tanh\" is not supported");
  expect_refused(kHelium, R"({"sliding_window": 128})", "sliding_window: unknown here");
  expect_refused(kHelium, R"({"partial_rotary_factor": 0.5})",
                 "partial_rotary_factor: 0.5 is not supported here");
}

}  // namespace
}  // namespace lockstep
