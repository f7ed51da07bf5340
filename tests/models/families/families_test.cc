// SPDX-License-Identifier: Apache-2.0
// Families with their own names of keys, or with several kinds of models under one architecture.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "models/blocks/attention.h"
#include "tests/models/described_config.h"

namespace lockstep {
namespace {

std::string with(std::string config, const std::string& members) {
  return config.insert(1, members + ", ");
}

constexpr char kFalcon[] = R"({"architectures": ["FalconForCausalLM"], "vocab_size": 320,
  "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8})";

TEST(FalconTest, ModelsHaveOneKvHeadOrGroupsOrOnePerHead) {
  const Described small = config_of(kFalcon);
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
  expect_refused(with(kFalcon, R"("num_ln_in_parallel_attn": 3, "new_decoder_architecture": true)"),
                 "num_ln_in_parallel_attn: must be an integer from 1 to 2");

  const Described serial =
      config_of(with(kFalcon, R"("multi_query": false, "parallel_attn": false, "bias": true)"));
  EXPECT_EQ(serial.kv_heads, 8);
  EXPECT_EQ(serial.parallel_norms, 0);
  EXPECT_TRUE(serial.qkv_bias && serial.output_bias && serial.mlp_bias);
}

TEST(FalconTest, AlibiIsAddedBeforeScoresAreScaled) {
  const Described config = config_of(with(kFalcon, R"("alibi": true)"));
  ASSERT_EQ(config.slopes.size(), 8u);
  const float scale = 1 / std::sqrt(8.0f);
  for (int i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(config.slopes[i], std::ldexp(scale, -1 - i));
  EXPECT_FALSE(config.rotates[0]);
  EXPECT_TRUE(config_of(kFalcon).rotates[0]);
}

TEST(FalconTest, OldNamesOfKeysAreRead) {
  const Described config = config_of(R"({"architectures": ["RWForCausalLM"], "vocab_size": 320,
      "hidden_size": 64, "n_layer": 2, "n_head": 8, "n_head_kv": 4, "layer_norm_epsilon": 1e-4,
      "new_decoder_architecture": true})");
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_FLOAT_EQ(config.norm_eps, 1e-4f);
}

constexpr char kChatGlm[] = R"({"architectures": ["ChatGLMModel"], "padded_vocab_size": 320,
  "hidden_size": 64, "num_layers": 2, "num_attention_heads": 4, "ffn_hidden_size": 124,
  "kv_channels": 16, "multi_query_attention": true, "multi_query_group_num": 2,
  "seq_length": 256, "add_qkv_bias": true})";

TEST(ChatGlmTest, TheFamilysOwnKeysAreRead) {
  const Described config = config_of(kChatGlm);
  EXPECT_EQ(config.vocab_size, 320);
  EXPECT_EQ(config.kv_heads, 2);
  EXPECT_EQ(config.rotary.rotary_dim(), 8);
  EXPECT_TRUE(config.rotary.interleaved());
  EXPECT_TRUE(config.qkv_bias && !config.output_bias);
  const float slowest = config.rope.inv_freq(3);
  EXPECT_LT(config_of(with(kChatGlm, R"("rope_ratio": 50)")).rope.inv_freq(3), slowest);
}

TEST(ChatGlmTest, OtherBlocksAreRefused) {
  expect_refused(with(kChatGlm, R"("rmsnorm": false)"), "rmsnorm: false is not supported");
  expect_refused(with(kChatGlm, R"("quantization_bit": 4)"),
                 "quantization_bit: an integer (4) is not supported");
  EXPECT_TRUE(
      describe_config(with(kChatGlm, R"("quantization_bit": 0, "interleaved_qkv": false)")).ok());
  expect_refused(with(kChatGlm, R"("add_bias_linear": true)"), "add_bias_linear: unknown here");
  expect_refused(with(kChatGlm, R"("rope_ratio": 0)"), "rope_ratio: must be a number from");
}

// A smaller ChatGLM-6B in its published form.
constexpr char kChatGlm1[] = R"({"architectures": ["ChatGLMModel"], "bos_token_id": 314,
  "eos_token_id": 315, "gmask_token_id": 311, "hidden_size": 64, "inner_hidden_size": 192,
  "layernorm_epsilon": 1e-05, "mask_token_id": 310, "max_sequence_length": 256,
  "model_type": "chatglm", "num_attention_heads": 4, "num_layers": 2, "pad_token_id": 3,
  "position_encoding_2d": true, "pre_seq_len": null, "prefix_projection": false,
  "quantization_bit": 0, "torch_dtype": "float16", "use_cache": true, "vocab_size": 320})";

TEST(ChatGlmTest, TheFirstGenerationIsRecognizedByItsKeys) {
  const absl::StatusOr<ModelDescription> model = describe_config(kChatGlm1);
  ASSERT_TRUE(model.ok()) << model.status();
  const Described config = described(*model);
  EXPECT_TRUE(config.layer_norm && config.norm_bias && config.mlp_bias);
  EXPECT_EQ(config.normed_residual, 2);
  EXPECT_EQ(config.intermediate_size, 192);
  EXPECT_EQ(config.context, 256);
  EXPECT_EQ(config.rotary.rotary_dim(), 8);
  EXPECT_FALSE(config.rotary.interleaved());
  EXPECT_EQ(model->graph.sequence_rules.prefix_end(), 314);
  EXPECT_EQ(model->graph.sequence_rules.held_ids(0), 311);
  EXPECT_EQ(model->graph.sequence_rules.held_ids(1), 310);
  std::string other = kChatGlm1;
  other.replace(other.find("\"quantization_bit\": 0"), 21, "\"quantization_bit\": 4");
  expect_refused(other, "quantization_bit: ");
  other = kChatGlm1;
  other.replace(other.find("2d\": true"), 9, "2d\": false");
  expect_refused(other, "position_encoding_2d: ");
  other = kChatGlm1;
  other.replace(other.find("\"gmask_token_id\": 311"), 21, "\"gmask_token_id\": 320");
  expect_refused(other, "gmask_token_id: must be an integer from 0 to 319, found 320");
}

constexpr char kGptJ[] = R"({"architectures": ["GPTJForCausalLM"], "vocab_size": 320,
  "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128})";

TEST(GptJTest, RotaryDimIsTheNumberOfRotatedColumns) {
  EXPECT_EQ(config_of(kGptJ).rotary.rotary_dim(), 16);
  const Described config = config_of(with(kGptJ, R"("rotary_dim": 6, "n_inner": null)"));
  EXPECT_EQ(config.rotary.rotary_dim(), 6);
  EXPECT_EQ(config.intermediate_size, 256);
  EXPECT_EQ(config.parallel_norms, 1);
  EXPECT_TRUE(config.head_bias && config.mlp_bias && !config.qkv_bias);
  expect_refused(with(kGptJ, R"("rotary_dim": 5)"), "rotary_dim: must be an even number, found 5");
  expect_refused(with(kGptJ, R"("rotary_dim": 18)"), "rotary_dim: must be an integer from 1 to 16");
}

TEST(GptJTest, BlocksOfCodeGenNeedAMultipleOfFourHeads) {
  std::string config = kGptJ;
  config.replace(config.find("GPTJ"), 4, "CodeGen");
  EXPECT_TRUE(describe_config(config).ok());
  config.replace(config.find("\"n_head\": 4"), 11, "\"n_head\": 2");
  expect_refused(config, "n_head: must be a multiple of 4, found 2");
}

TEST(GptNeoxTest, AttentionAndMlpAreParallelByDefault) {
  const std::string config = R"({"architectures": ["GPTNeoXForCausalLM"], "vocab_size": 320,
      "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "intermediate_size": 256, "max_position_embeddings": 128})";
  EXPECT_EQ(config_of(config).parallel_norms, 2);
  EXPECT_EQ(config_of(config).rotary.rotary_dim(), 4);
  EXPECT_EQ(config_of(with(config, R"("use_parallel_residual": false)")).parallel_norms, 0);
  EXPECT_TRUE(config_of(config).output_bias);
  EXPECT_FALSE(config_of(with(config, R"("attention_bias": false)")).output_bias);
}

TEST(StableLmTest, UnsupportedKeysAreNamed) {
  const std::string config = R"({"architectures": ["StableLMEpochForCausalLM"], "vocab_size": 320,
      "hidden_size": 64, "num_hidden_layers": 2, "num_heads": 4, "intermediate_size": 256,
      "max_position_embeddings": 128, "norm_eps": 1e-5, "rope_pct": 0.5})";
  EXPECT_EQ(config_of(config).rotary.rotary_dim(), 8);
  expect_refused(with(config, R"("rotary_scaling_factor": 2)"),
                 "rotary_scaling_factor: an integer (2) is not supported; supported: 1");
  expect_refused(with(config, R"("qk_layernorm": true)"), "qk_layernorm: unknown here");
}

constexpr char kStableLm[] = R"({"architectures": ["StableLmForCausalLM"], "vocab_size": 320,
  "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256,
  "max_position_embeddings": 128})";

TEST(StableLmTest, HeadsHaveNormsIfTheConfigSaysSo) {
  EXPECT_FALSE(config_of(kStableLm).normed_q);
  const Described config = config_of(with(kStableLm, R"("qk_layernorm": true)"));
  EXPECT_TRUE(config.normed_q && config.q_norm.centred() && config.q_norm_by_head);
}

constexpr char kCohere2[] = R"({"architectures": ["Cohere2ForCausalLM"], "vocab_size": 320,
  "hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 4, "intermediate_size": 256,
  "max_position_embeddings": 128})";

TEST(CohereTest, LayersWithoutAWindowHaveNoRope) {
  const Described config = config_of(kCohere2);
  EXPECT_EQ(config.windows, (std::vector<int64_t>{4096, 4096, 4096, 0, 4096}));
  EXPECT_EQ(config.rotates, (std::vector<bool>{true, true, true, false, true}));
  EXPECT_FLOAT_EQ(config.logits_multiplier, 0.0625f);
  EXPECT_TRUE(config.layer_norm && !config.norm_bias);
  EXPECT_EQ(config_of(with(kCohere2, R"("layer_switch": 2)")).windows,
            (std::vector<int64_t>{4096, 0, 4096, 0, 4096}));
}

TEST(CohereTest, UnsupportedKeysAreNamed) {
  expect_refused(with(kCohere2, R"("use_qk_norm": true)"), "use_qk_norm: unknown here");
  std::string first = kCohere2;
  first.replace(first.find("Cohere2"), 7, "Cohere");
  EXPECT_FALSE(config_of(first).normed_q);
  EXPECT_TRUE(config_of(with(first, R"("use_qk_norm": true)")).q_norm_by_head);
  expect_refused(with(kCohere2, R"("use_parallel_block": false)"),
                 "use_parallel_block: false is not supported; supported: true");
  expect_refused(with(kCohere2, R"("logit_scale": 0)"), "logit_scale: must be a number from");
}

TEST(Exaone4Test, TheLayerPatternMayBeGivenInLetters) {
  const std::string config = R"({"architectures": ["Exaone4ForCausalLM"], "vocab_size": 320,
      "hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 4,
      "num_key_value_heads": 2, "intermediate_size": 256, "max_position_embeddings": 128})";
  using Windows = std::vector<int64_t>;
  EXPECT_EQ(
      config_of(with(config, R"("sliding_window_pattern": "LG", "sliding_window": 9)")).windows,
      (Windows{9, 0, 9, 0, 9}));
  const Described full = config_of(with(config, R"("sliding_window": null)"));
  EXPECT_EQ(full.windows, Windows(5, 0));
  EXPECT_EQ(full.rotates, std::vector<bool>(5, true));
  expect_refused(with(config, R"("sliding_window_pattern": "LSG")"),
                 "sliding_window_pattern: must be a number or letters L and G");
  expect_refused(with(config, R"("sliding_window_pattern": "")"),
                 "sliding_window_pattern: must be");
}

TEST(Starcoder2Test, OneKeyCoversAllBiases) {
  const std::string config = R"({"architectures": ["Starcoder2ForCausalLM"], "vocab_size": 320,
      "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
      "intermediate_size": 256, "max_position_embeddings": 128})";
  EXPECT_TRUE(config_of(config).mlp_bias && config_of(config).output_bias);
  const Described without = config_of(with(config, R"("use_bias": false)"));
  EXPECT_FALSE(without.mlp_bias || without.output_bias || without.qkv_bias);
  expect_refused(with(config, R"("mlp_type": "gated")"),
                 "mlp_type: a string (\"gated\") is not supported");
}

constexpr char kBaichuan[] = R"({"architectures": ["BaichuanForCausalLM"], "vocab_size": 320,
  "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 124})";

TEST(BaichuanTest, TheKindIsRecognizedByRequiredSizesAndKeys) {
  const Described small = config_of(with(kBaichuan, R"("max_position_embeddings": 128)"));
  EXPECT_TRUE(small.slopes.empty() && small.rotates[0] && !small.head_unit_rows);
  const Described large = config_of(with(kBaichuan, R"("model_max_length": 256)"));
  EXPECT_EQ(large.slopes, (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f}));
  EXPECT_EQ(large.context, 256);
  EXPECT_FALSE(large.rotates[0]);
  std::string config = with(kBaichuan, R"("max_position_embeddings": 128, "head_dim": 128)");
  config.replace(config.find("64"), 2, "5120");
  EXPECT_EQ(config_of(config).slopes.size(), 4u);
  config.replace(config.find("320"), 3, "125696");
  EXPECT_TRUE(config_of(config).head_unit_rows);
  EXPECT_TRUE(config_of(with(kBaichuan, R"("z_loss_weight": 0)")).head_unit_rows);
}

constexpr char kMpt[] = R"({"architectures": ["MPTForCausalLM"], "vocab_size": 320, "d_model": 48,
  "n_layers": 2, "n_heads": 6, "max_seq_len": 128, "attn_config": {"alibi": true, "clip_qkv": 6,
  "softmax_scale": 0.5}})";

TEST(MptTest, TheFamilysOwnKeysAreRead) {
  const Described config = config_of(kMpt);
  EXPECT_EQ(config.intermediate_size, 192);
  EXPECT_EQ(config.qkv_clamp, 6);
  EXPECT_EQ(config.attention_scale, 0.5f);
  // The second, fourth, sixth and eighth of eight slopes, then the first and third.
  EXPECT_EQ(config.slopes,
            (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
}

TEST(MptTest, UnsupportedKeysAreNamed) {
  expect_refused(with(kMpt, R"("no_bias": false)"), "no_bias: false is not supported");
  std::string config = kMpt;
  config.replace(config.find("true"), 4, "false");
  expect_refused(config, "attn_config.alibi: false is not supported; supported: true");
  expect_refused(kMpt, R"({"attn_config": {"kv_n_heads": 2}})",
                 "attn_config.kv_n_heads: unknown here and may change what the model computes "
                 "(found an integer (2)); --ignore-config attn_config.kv_n_heads runs without it");
  EXPECT_TRUE(describe_config(kMpt, R"({"norm_type": "low_precision_layernorm", "attn_config": {
      "attn_impl": "torch", "attn_pdrop": 0, "rope": false, "rope_theta": 10000}})")
                  .ok());
  expect_refused(kMpt, R"({"norm_type": "rmsnorm"})",
                 "norm_type: a string (\"rmsnorm\") is not supported; supported: ");
}

constexpr char kOpt[] = R"({"architectures": ["OPTForCausalLM"], "vocab_size": 320,
  "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 256,
  "max_position_embeddings": 128})";

TEST(OptTest, TheFirstPositionHasTheThirdRowOfTheTable) {
  const Described config = config_of(kOpt);
  EXPECT_EQ(config.position_rows, 130);
  EXPECT_EQ(config.position_offset, 2);
  EXPECT_EQ(config.context, 128);
  EXPECT_TRUE(config.qkv_bias && config.output_bias && config.mlp_bias);
}

std::vector<int64_t> last_norm(const std::string& config) {
  return tensor_of("model.decoder.final_layer_norm.weight", config);
}

// An example is OPT-350m.
TEST(OptTest, NormsMayFollowTheBlocksAndEmbeddingsMayBeNarrower) {
  EXPECT_EQ(last_norm(kOpt), std::vector<int64_t>{64});
  const std::string behind =
      with(kOpt, R"("do_layer_norm_before": false, "word_embed_proj_dim": 32)");
  EXPECT_TRUE(last_norm(behind).empty());
  EXPECT_EQ(config_of(behind).embedding_width, 32);
}

TEST(OptTest, UnsupportedKeysAreNamed) {
  for (const char* key : {"layer_norm_elementwise_affine", "_remove_final_layer_norm"}) {
    const bool wrong = key[0] == '_';
    expect_refused(with(kOpt, fmt::format(R"("{}": {})", key, wrong)),
                   fmt::format("{}: {} is not supported; supported: {}", key, wrong, !wrong));
  }
  EXPECT_FALSE(last_norm(with(kOpt, R"("_remove_final_layer_norm": false)")).empty());
}

TEST(BloomTest, TheResidualIsTheOutputOfTheNormIfAKeySaysSo) {
  const std::string bloom = R"({"architectures": ["BloomForCausalLM"], "vocab_size": 320,
      "hidden_size": 64, "n_layer": 2, "n_head": 4})";
  EXPECT_EQ(config_of(bloom).normed_residual, 0);
  const std::string key = R"("apply_residual_connection_post_layernorm": )";
  EXPECT_EQ(config_of(with(bloom, key + "false")).normed_residual, 0);
  EXPECT_EQ(config_of(with(bloom, key + "true")).normed_residual, 1);
}

TEST(AlibiTest, ForNumbersOfHeadsBetweenPowersOfTwoSlopesComeFromTheNextPower) {
  EXPECT_EQ(alibi_slopes(6),
            (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
  EXPECT_EQ(alibi_slopes(1), std::vector<float>{0.00390625f});
}

constexpr char kOlmo[] = R"({"architectures": ["Olmo3ForCausalLM"], "vocab_size": 320,
  "hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 4, "intermediate_size": 256,
  "max_position_embeddings": 128, "sliding_window": 9, "rope_theta": 1000.0,
  "rope_scaling": {"rope_type": "linear", "factor": 4.0}})";

TEST(OlmoTest, NormsCoverAllHeadsAndLayersWithAWindowHaveUnscaledRope) {
  const Described config = config_of(kOlmo);
  EXPECT_TRUE(config.normed_q && config.q_norm.head_dim() == 0);
  EXPECT_EQ(config.windows, (std::vector<int64_t>{9, 9, 9, 0, 9}));
  EXPECT_FLOAT_EQ(config.rope.inv_freq(0), 0.25f);
  EXPECT_FLOAT_EQ(config.window_rope.inv_freq(0), 1);
  EXPECT_LT(config.window_rope.inv_freq(1), config_of(kOlmo).rope.inv_freq(1) * 4);
  std::string second = kOlmo;
  second.replace(second.find("Olmo3"), 5, "Olmo2");
  expect_refused(second, "sliding_window: unknown here");
  expect_refused(with(kOlmo, R"("clip_qkv": 8.0)"), "clip_qkv: unknown here");
}

constexpr char kMiniMax[] = R"({"architectures": ["MiniMaxM2ForCausalLM"], "vocab_size": 320,
  "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "intermediate_size": 32,
  "max_position_embeddings": 128, "num_local_experts": 8, "num_experts_per_tok": 2})";

TEST(MiniMaxTest, KeysOfPublishedFilesAreReadOrMustHaveOneValue) {
  const Described config = config_of(kMiniMax);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.rotary.rotary_dim(), 128);
  EXPECT_TRUE(config.normed_q && config.q_norm.head_dim() == 0);
  EXPECT_EQ(config.experts.size, 32);
  EXPECT_EQ(config_of(with(kMiniMax, R"("rotary_dim": 64)")).rotary.rotary_dim(), 64);
  const std::string other =
      R"("rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25})";
  EXPECT_EQ(config_of(with(kMiniMax, other)).rotary.rotary_dim(), 32);
  const std::string published = R"("qk_norm_type": "per_layer", "scoring_func": "sigmoid",
      "shared_intermediate_size": 0, "use_qk_norm": true, "use_routing_bias": true,
      "attn_type_list": [1, 1], "num_mtp_modules": 3, "use_mtp": true, "mlp_intermediate_size": 96,
      "layernorm_full_attention_beta": 1.0, "layernorm_linear_attention_beta": 1.0,
      "layernorm_mlp_beta": 1.0, "mtp_transformer_layers": 1, "shared_moe_mode": "sigmoid")";
  EXPECT_TRUE(config_of(with(kMiniMax, published)).normed_q);
  expect_refused(with(kMiniMax, R"("attn_type_list": [1, 0])"), "attn_type_list: an integer (0)");
  expect_refused(with(kMiniMax, R"("use_routing_bias": false)"), "use_routing_bias: false is not");
  expect_refused(with(kMiniMax, R"("use_qk_norm": false)"), "use_qk_norm: false is not supported");
  expect_refused(with(kMiniMax, R"("scoring_func": "softmax")"),
                 "scoring_func: a string (\"softmax\") is not");
}

constexpr char kMinistral[] = R"({"architectures": ["Ministral3ForCausalLM"], "vocab_size": 320,
  "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "intermediate_size": 32})";

TEST(Ministral3Test, QueriesAreScaledByTheirPosition) {
  const Described config = config_of(kMinistral);
  EXPECT_EQ(config.context, 262144);
  EXPECT_EQ(config.query_scales.length(), 16384);
  ASSERT_EQ(config.query_scales.scales_size(), 16u);
  EXPECT_EQ(config.query_scales.scales(0), 1);
  EXPECT_FLOAT_EQ(config.query_scales.scales(15), 1.2772589f);  // 1 + 0.1 * log(16)
  const std::string yarn = R"("rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4,
      "original_max_position_embeddings": 100, "factor": 2, "max_position_embeddings": 250)";
  const std::string size = R"("max_position_embeddings": 250, )";
  const Described own =
      config_of(with(kMinistral, size + yarn + R"(, "llama_4_scaling_beta": 0.5})"));
  EXPECT_EQ(own.query_scales.scales_size(), 3u);
  const std::string far = R"("max_position_embeddings": 150, )";  // The scaling reaches 200.
  const Described beyond =
      config_of(with(kMinistral, far + yarn + R"(, "llama_4_scaling_beta": 1})"));
  EXPECT_EQ(beyond.query_scales.scales_size(), 2u);
  EXPECT_EQ(config_of(with(kMinistral, R"("rope_parameters": null)")).query_scales.length(), 16384);
  expect_refused(with(kMinistral, R"("max_position_embeddings": 10000000, "rope_parameters": {
      "rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 2,
      "llama_4_scaling_beta": 1})"),
                 "original_max_position_embeddings: must be at least 1/65536");
  expect_refused(with(kMinistral, size + yarn + "}"), "rope_parameters.llama_4_scaling_beta:");
  expect_refused(with(kMinistral, size + yarn + R"(, "llama_4_scaling_beta": -1})"),
                 "llama_4_scaling_beta: must be a number from 0 to 1000, found -1");
}

}  // namespace
}  // namespace lockstep
