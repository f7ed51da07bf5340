// SPDX-License-Identifier: Apache-2.0
// Gemma 4: its config.json in both forms, alone and in a wrapper, its graph, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/models/described_config.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

// Every second layer and the last have full attention. The last three layers read the pages of
// earlier ones. Each layer has an embedding of its own.
constexpr char kSmall[] = R"({"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text",
  "attention_bias": false, "attention_k_eq_v": false, "dtype": "bfloat16",
  "enable_moe_block": false, "final_logit_softcapping": 30.0, "global_head_dim": 512,
  "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 96,
  "hidden_size_per_layer_input": 16, "intermediate_size": 128, "max_position_embeddings": 131072,
  "moe_intermediate_size": null, "num_attention_heads": 8, "num_experts": null,
  "num_global_key_value_heads": null, "num_hidden_layers": 7, "num_key_value_heads": 2,
  "num_kv_shared_layers": 3, "pad_token_id": 0, "rms_norm_eps": 1e-06, "rope_parameters": {
    "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0,
                       "rope_type": "proportional"},
    "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}},
  "sliding_window": 512, "tie_word_embeddings": true, "top_k_experts": null,
  "use_bidirectional_attention": null, "use_double_wide_mlp": true, "vocab_size": 1024,
  "vocab_size_per_layer_input": 1024, "layer_types": ["sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention"]})";

// A variant with experts, values made from keys, and one KV head in full layers.
constexpr char kExperts[] = R"({"attention_k_eq_v": true, "enable_moe_block": true,
  "num_experts": 16, "top_k_experts": 4, "moe_intermediate_size": 24,
  "num_global_key_value_heads": 1, "num_kv_shared_layers": 0, "use_double_wide_mlp": false,
  "hidden_size_per_layer_input": 0, "use_bidirectional_attention": "vision"})";

std::vector<program::AttentionAttrs> attentions(const Graph& graph) {
  std::vector<program::AttentionAttrs> found;
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kAttention) found.push_back(node.attributes.attention());
  }
  return found;
}

TEST(Gemma4Test, LayersWithoutAWindowHaveTheirOwnHeadsAndAngles) {
  const Described config = config_of(kSmall);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.windows,
            (std::vector<int64_t>{512, 0, 512, 0, 512, 0, 0}));  // The last layer: full attention.
  EXPECT_FLOAT_EQ(config.attention_scale, 1);
  EXPECT_FLOAT_EQ(config.embedding_multiplier, std::sqrt(96.0f));
  EXPECT_EQ(config.window_rotary.rotary_dim(), 256);
  EXPECT_EQ(config.rotary.rotary_dim(), 512);
  const auto& frequencies = config.rope.inv_freq();
  ASSERT_EQ(frequencies.size(), 256);
  EXPECT_FLOAT_EQ(frequencies[63], std::pow(1e6f, -126.0f / 512));
  EXPECT_EQ(frequencies[64], 0);  // A quarter of the pairs is rotated.
  EXPECT_EQ(tensor_of("model.layers.3.mlp.up_proj.weight", kSmall)[0], 128);
  EXPECT_EQ(tensor_of("model.layers.4.mlp.up_proj.weight", kSmall)[0], 256);
  EXPECT_EQ(config.experts.count, 0);
}

TEST(Gemma4Test, LayersThatSharePagesReadThoseOfTheLastLayerOfTheirKind) {
  const absl::StatusOr<ModelDescription> model = describe_config(kSmall);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto found = attentions(model->graph);
  ASSERT_EQ(found.size(), 7u);
  const int states[] = {0, 1, 2, 3, 2, 3, 3};
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].state(), states[i]) << i;
    EXPECT_EQ(found[i].read_only(), i >= 4) << i;
    EXPECT_EQ(found[i].head_dim(), found[i].window() > 0 ? 256 : 512) << i;
    EXPECT_EQ(found[i].kv_heads(), 2) << i;
  }
}

TEST(Gemma4Test, ExpertsValuesFromKeysAndFewerKvHeadsAreRead) {
  const absl::StatusOr<ModelDescription> model = describe_config(kSmall, kExperts);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.experts.chosen, 4);
  const auto named = [&](const std::string& name) {
    return std::ranges::count_if(model->graph.parameters(), [&](const Parameter& parameter) {
      return parameter.pieces.front().source() == name;
    });
  };
  EXPECT_EQ(named("model.layers.0.self_attn.v_proj.weight"), 1);
  EXPECT_EQ(named("model.layers.1.self_attn.v_proj.weight"), 0);
  EXPECT_EQ(named("model.layers.1.experts.gate_up_proj"), 2);
  EXPECT_EQ(named("model.layers.1.router.per_expert_scale"), 1);
  EXPECT_EQ(named("model.embed_tokens_per_layer.weight"), 0);
  EXPECT_EQ(attentions(model->graph)[1].kv_heads(), 1);
}

TEST(Gemma4Test, SizesMayBeGivenForSingleLayers) {
  Json json = Json::parse(kSmall);
  json.update(Json::parse(kExperts));
  const std::string before = describe_config(json.dump())->graph.nodes().empty() ? "" : "built";
  EXPECT_EQ(before, "built");
  json.erase("global_head_dim");
  json.erase("num_global_key_value_heads");
  const Json sizes = {{"head_dim", 384}, {"num_key_value_heads", 4}};
  json["per_layer_config"] = {{"1", sizes}, {"3", sizes}, {"5", sizes}, {"6", sizes}};
  const auto sized = attentions(describe_config(json.dump())->graph);
  EXPECT_EQ(sized[1].head_dim(), 384);
  EXPECT_EQ(sized[1].kv_heads(), 4);
  json["per_layer_config"]["3"]["head_dim"] = 128;
  EXPECT_THAT(message_of(describe_config(json.dump()).status()),
              HasSubstr("per_layer_config.3: must be"));
  json["per_layer_config"] = {{"1", {{"sliding_window", 3}}}};
  EXPECT_THAT(message_of(describe_config(json.dump()).status()),
              HasSubstr("per_layer_config: sliding_window is not supported"));
}

TEST(Gemma4Test, TensorsOfTheTextPartBeginWithModelLanguageModel) {
  Json text = Json::parse(kSmall);
  text.erase("architectures");
  const Json json = {{"architectures", {"Gemma4ForConditionalGeneration"}},
                     {"model_type", "gemma4"},
                     {"text_config", text},
                     {"vision_config", {{"hidden_size", 768}}},
                     {"audio_config", {{"hidden_size", 1024}}},
                     {"boi_token_id", 255999},
                     {"eoi_token_id", 258882},
                     {"image_token_id", 258880},
                     {"video_token_id", 258884},
                     {"boa_token_id", 256000},
                     {"eoa_token_index", 258883},
                     {"audio_token_id", 258881},
                     {"vision_soft_tokens_per_image", 280},
                     {"tie_word_embeddings", true}};
  const absl::StatusOr<ModelDescription> model = describe_config(json.dump());
  ASSERT_TRUE(model.ok()) << model.status();
  for (const Parameter& parameter : model->graph.parameters()) {
    EXPECT_THAT(parameter.pieces.front().source(), testing::StartsWith("model.language_model."));
  }
}

TEST(Gemma4Test, ThePerLayerEmbeddingMayHaveMoreRowsThanTheVocabulary) {
  const absl::StatusOr<ModelDescription> model =
      describe_config(kSmall, R"({"vocab_size_per_layer_input": 262144})");
  ASSERT_TRUE(model.ok()) << model.status();
  const auto table = std::ranges::find_if(model->graph.parameters(), [](const Parameter& found) {
    return found.pieces.front().source() == "model.embed_tokens_per_layer.weight";
  });
  ASSERT_NE(table, model->graph.parameters().end());
  EXPECT_EQ(table->rows.count, 1024);
  EXPECT_EQ(table->pieces.front().source_shape(0), 262144);
  EXPECT_EQ(table->pieces.front().row_end(), 1024);
}

TEST(Gemma4Test, UnsupportedModelsAreRefused) {
  expect_refused(kSmall, R"({"use_bidirectional_attention": "all"})",
                 "use_bidirectional_attention: ");
  expect_refused(kSmall, R"({"num_kv_shared_layers": 7})",
                 "num_kv_shared_layers: must be an integer from 0 to 6, found 7");
  expect_refused(kSmall, R"({"num_kv_shared_layers": 6})",
                 "num_kv_shared_layers: must leave at least one layer of the kind full_attention");
  expect_refused(kSmall, R"({"vocab_size_per_layer_input": 512})",
                 "vocab_size_per_layer_input: must be an integer from 1024 to 16777216, found 512");
  expect_refused(kSmall, R"({"hidden_size_per_layer_input": -1})",
                 "hidden_size_per_layer_input: must be");
  expect_refused(kSmall, R"({"pad_token_id": 1024})",
                 "pad_token_id: must be an integer from 0 to 1023");
  expect_refused(kSmall, R"({"global_head_dim": 2000})", "global_head_dim: must be");
  expect_refused(kSmall, R"({"attention_k_eq_v": true, "num_global_key_value_heads": 3})",
                 "num_global_key_value_heads: must be a divisor");
  expect_refused(kSmall, R"({"altup_num_inputs": 4})", "altup_num_inputs: unknown here");
}

}  // namespace
}  // namespace lockstep
