// SPDX-License-Identifier: Apache-2.0
// Families that name keys in their own way, or have several kinds of models under one architecture.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "models/models.h"
#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

absl::StatusOr<ModelDescription> describe(const std::string& config) {
  const TempFolder folder;
  std::ofstream(folder.path() / "config.json") << config;
  return describe_model(folder.path(), {}, 0);
}

Config config_of(const std::string& config) {
  const absl::StatusOr<ModelDescription> model = describe(config);
  EXPECT_TRUE(model.ok()) << message_of(model.status());
  return model.ok() ? model->config : Config();
}

void expect_refused(const std::string& config, const std::string& says) {
  const absl::StatusOr<ModelDescription> model = describe(config);
  ASSERT_FALSE(model.ok()) << says;
  EXPECT_NE(message_of(model.status()).find(says), std::string::npos) << model.status();
}

std::string with(std::string config, const std::string& members) {
  return config.insert(1, members + ", ");
}

constexpr char kFalcon[] = R"({"architectures": ["FalconForCausalLM"], "vocab_size": 320,
  "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8})";

TEST(FalconTest, OneNameHasModelsOfOneKvHeadOfGroupsAndOfAsManyAsHeads) {
  const Config small = config_of(kFalcon);
  EXPECT_EQ(small.kv_heads, 1);
  EXPECT_EQ(small.parallel_norms, 1);
  EXPECT_EQ(small.intermediate_size, 256);
  EXPECT_EQ(small.context, 2048);
  EXPECT_TRUE(small.tie_word_embeddings);
  EXPECT_FALSE(small.qkv_bias || small.output_bias || small.mlp_bias);

  const std::string grouped =
      with(kFalcon, R"("new_decoder_architecture": true, "num_kv_heads": 2)");
  EXPECT_EQ(config_of(grouped).kv_heads, 2);
  EXPECT_EQ(config_of(grouped).parallel_norms, 2);
  EXPECT_EQ(config_of(with(grouped, R"("num_ln_in_parallel_attn": 1)")).parallel_norms, 1);

  const Config serial =
      config_of(with(kFalcon, R"("multi_query": false, "parallel_attn": false, "bias": true)"));
  EXPECT_EQ(serial.kv_heads, 8);
  EXPECT_EQ(serial.parallel_norms, 0);
  EXPECT_TRUE(serial.qkv_bias && serial.output_bias && serial.mlp_bias);
}

TEST(FalconTest, OldNamesOfKeysAreRead) {
  const Config config = config_of(R"({"architectures": ["RWForCausalLM"], "vocab_size": 320,
      "hidden_size": 64, "n_layer": 2, "n_head": 8, "n_head_kv": 4, "layer_norm_epsilon": 1e-4,
      "new_decoder_architecture": true})");
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-4f);
}

TEST(FalconTest, WhatIsNotSupportedIsNamed) {
  expect_refused(with(kFalcon, R"("alibi": true)"), "alibi: true is not supported yet");
  expect_refused(with(kFalcon, R"("num_ln_in_parallel_attn": 3, "new_decoder_architecture": true)"),
                 "num_ln_in_parallel_attn: wanted an integer from 1 to 2");
}

constexpr char kChatGlm[] = R"({"architectures": ["ChatGLMModel"], "padded_vocab_size": 320,
  "hidden_size": 64, "num_layers": 2, "num_attention_heads": 4, "ffn_hidden_size": 124,
  "kv_channels": 16, "multi_query_attention": true, "multi_query_group_num": 2,
  "seq_length": 256, "add_qkv_bias": true})";

TEST(ChatGlmTest, KeysOfItsOwnAreRead) {
  const Config config = config_of(kChatGlm);
  EXPECT_EQ(config.vocab_size, 320);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.rope.rotary_dim, 8);
  EXPECT_TRUE(config.rope.interleaved);
  EXPECT_TRUE(config.qkv_bias && !config.output_bias);
  const float slowest = config.rope.table.inv_freq(3);
  EXPECT_LT(config_of(with(kChatGlm, R"("rope_ratio": 50)")).rope.table.inv_freq(3), slowest);
}

TEST(ChatGlmTest, TheFirstGenerationAndOtherBlocksAreRefused) {
  expect_refused(with(kChatGlm, R"("position_encoding_2d": true)"), "of the first generation");
  expect_refused(with(kChatGlm, R"("rmsnorm": false)"), "rmsnorm: false is not supported");
  expect_refused(with(kChatGlm, R"("quantization_bit": 4)"),
                 "quantization_bit: 4 is not supported");
  EXPECT_TRUE(describe(with(kChatGlm, R"("quantization_bit": 0, "interleaved_qkv": false)")).ok());
  expect_refused(with(kChatGlm, R"("add_bias_linear": true)"), "add_bias_linear: unknown here");
  expect_refused(with(kChatGlm, R"("rope_ratio": 0)"), "rope_ratio: wanted a number from");
}

constexpr char kGptJ[] = R"({"architectures": ["GPTJForCausalLM"], "vocab_size": 320,
  "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128})";

TEST(GptJTest, RotaryDimSaysHowManyColumnsTurn) {
  EXPECT_EQ(config_of(kGptJ).rope.rotary_dim, 16);
  const Config config = config_of(with(kGptJ, R"("rotary_dim": 6, "n_inner": null)"));
  EXPECT_EQ(config.rope.rotary_dim, 6);
  EXPECT_EQ(config.intermediate_size, 256);
  EXPECT_EQ(config.parallel_norms, 1);
  EXPECT_TRUE(config.head_bias && config.mlp_bias && !config.qkv_bias);
  expect_refused(with(kGptJ, R"("rotary_dim": 5)"), "rotary_dim: wanted an even number, found 5");
  expect_refused(with(kGptJ, R"("rotary_dim": 18)"), "rotary_dim: wanted an integer from 1 to 16");
}

TEST(GptJTest, BlocksOfCodeGenWantAMultipleOfFourHeads) {
  std::string config = kGptJ;
  config.replace(config.find("GPTJ"), 4, "CodeGen");
  EXPECT_TRUE(describe(config).ok());
  config.replace(config.find("\"n_head\": 4"), 11, "\"n_head\": 2");
  expect_refused(config, "n_head: wanted a multiple of 4, found 2");
}

TEST(GptNeoxTest, HalvesAreParallelUnlessTheConfigSaysOtherwise) {
  const std::string config = R"({"architectures": ["GPTNeoXForCausalLM"], "vocab_size": 320,
      "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "intermediate_size": 256, "max_position_embeddings": 128})";
  EXPECT_EQ(config_of(config).parallel_norms, 2);
  EXPECT_EQ(config_of(config).rope.rotary_dim, 4);
  EXPECT_EQ(config_of(with(config, R"("use_parallel_residual": false)")).parallel_norms, 0);
  EXPECT_TRUE(config_of(config).output_bias);
  EXPECT_FALSE(config_of(with(config, R"("attention_bias": false)")).output_bias);
}

TEST(StableLmTest, WhatIsNotSupportedIsNamed) {
  const std::string config = R"({"architectures": ["StableLMEpochForCausalLM"], "vocab_size": 320,
      "hidden_size": 64, "num_hidden_layers": 2, "num_heads": 4, "intermediate_size": 256,
      "max_position_embeddings": 128, "norm_eps": 1e-5, "rope_pct": 0.5})";
  EXPECT_EQ(config_of(config).rope.rotary_dim, 8);
  expect_refused(with(config, R"("rotary_scaling_factor": 2.0)"),
                 "rotary_scaling_factor: 2 is not supported; supported: 1");
  expect_refused(with(config, R"("qk_layernorm": true)"), "qk_layernorm: unknown here");
}

constexpr char kCohere2[] = R"({"architectures": ["Cohere2ForCausalLM"], "vocab_size": 320,
  "hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 4, "intermediate_size": 256,
  "max_position_embeddings": 128})";

TEST(CohereTest, LayersWithoutAWindowTurnNothing) {
  const Config config = config_of(kCohere2);
  EXPECT_EQ(config.windows, (std::vector<int64_t>{4096, 4096, 4096, 0, 4096}));
  EXPECT_EQ(config.turns, (std::vector<bool>{true, true, true, false, true}));
  EXPECT_FLOAT_EQ(config.logits_multiplier, 0.0625f);
  EXPECT_TRUE(config.layer_norm && !config.norm_bias);
  EXPECT_EQ(config_of(with(kCohere2, R"("layer_switch": 2)")).windows,
            (std::vector<int64_t>{4096, 0, 4096, 0, 4096}));
}

TEST(CohereTest, WhatIsNotSupportedIsNamed) {
  expect_refused(with(kCohere2, R"("use_qk_norm": true)"), "use_qk_norm: unknown here");
  expect_refused(with(kCohere2, R"("use_parallel_block": false)"),
                 "use_parallel_block: false is not supported; supported: true");
  expect_refused(with(kCohere2, R"("logit_scale": 0)"), "logit_scale: wanted a number from");
}

TEST(Exaone4Test, APatternMayBeLetters) {
  const std::string config = R"({"architectures": ["Exaone4ForCausalLM"], "vocab_size": 320,
      "hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 4,
      "num_key_value_heads": 2, "intermediate_size": 256, "max_position_embeddings": 128})";
  using Windows = std::vector<int64_t>;
  EXPECT_EQ(
      config_of(with(config, R"("sliding_window_pattern": "LG", "sliding_window": 9)")).windows,
      (Windows{9, 0, 9, 0, 9}));
  const Config full = config_of(with(config, R"("sliding_window": null)"));
  EXPECT_EQ(full.windows, Windows(5, 0));
  EXPECT_EQ(full.turns, std::vector<bool>(5, true));
  expect_refused(with(config, R"("sliding_window_pattern": "LSG")"),
                 "sliding_window_pattern: wanted a number or letters L and G");
  expect_refused(with(config, R"("sliding_window_pattern": "")"), "sliding_window_pattern: wanted");
}

TEST(Starcoder2Test, OneKeyIsForAllBiases) {
  const std::string config = R"({"architectures": ["Starcoder2ForCausalLM"], "vocab_size": 320,
      "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "intermediate_size": 256, "max_position_embeddings": 128})";
  EXPECT_TRUE(config_of(config).mlp_bias && config_of(config).output_bias);
  const Config without = config_of(with(config, R"("use_bias": false)"));
  EXPECT_FALSE(without.mlp_bias || without.output_bias || without.qkv_bias);
  expect_refused(with(config, R"("mlp_type": "gated")"), "mlp_type: \"gated\" is not supported");
}

}  // namespace
}  // namespace lockstep
