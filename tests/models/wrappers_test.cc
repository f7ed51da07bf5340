// SPDX-License-Identifier: Apache-2.0
#include "models/wrappers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "models/models.h"
#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kGemma[] = R"({"architectures": ["Gemma3ForConditionalGeneration"],
  "boi_token_index": 255999, "eoi_token_index": 256000, "eos_token_id": [1, 106],
  "image_token_index": 262144, "initializer_range": 0.02, "mm_tokens_per_image": 256,
  "model_type": "gemma3", "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
  "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
    "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window": 1024},
  "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model"}})";

constexpr char kMistral[] = R"({"architectures": ["Mistral3ForConditionalGeneration"],
  "image_token_index": 10, "model_type": "mistral3", "multimodal_projector_bias": false,
  "spatial_merge_size": 2, "vision_feature_layer": -1,
  "text_config": {"head_dim": 16, "hidden_size": 64, "intermediate_size": 96, "vocab_size": 320,
    "max_position_embeddings": 128, "model_type": "mistral", "num_attention_heads": 4,
    "num_hidden_layers": 2, "num_key_value_heads": 2, "sliding_window": null}})";

absl::StatusOr<ModelDescription> describe(const Json& config) {
  const TempFolder folder;
  std::ofstream(folder.path() / "config.json") << config;
  return describe_model(folder.path(), {}, 0);
}

std::string error_of(const Json& config) {
  const absl::StatusOr<ModelDescription> model = describe(config);
  return model.ok() ? "" : message_of(model.status());
}

TEST(WrappersTest, AMissingSizeOfGemma3IsThatOfTheReference) {
  const absl::StatusOr<ModelDescription> model = describe(Json::parse(kGemma));
  ASSERT_TRUE(model.ok()) << model.status();
  const Config& config = model->config;
  EXPECT_EQ(config.architecture, "Gemma3ForCausalLM");
  EXPECT_EQ(config.vocab_size, 262208);
  EXPECT_EQ(config.heads, 8);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.context, 131072);
  EXPECT_EQ(config.eos_token_ids, (std::vector<int64_t>{1, 106}));
  EXPECT_EQ(config.dtype, DType::kBF16);
  EXPECT_FLOAT_EQ(config.rope.table.inv_freq(0), 0.125f);
  EXPECT_FLOAT_EQ(config.window_rope.table.inv_freq(0), 1);
}

TEST(WrappersTest, TensorsOfTheTextPartHaveItsPrefix) {
  const absl::StatusOr<ModelDescription> model = describe(Json::parse(kMistral));
  ASSERT_TRUE(model.ok()) << model.status();
  for (const Parameter& parameter : model->graph.parameters()) {
    EXPECT_THAT(parameter.pieces[0].source(), StartsWith("language_model."));
  }
  EXPECT_EQ(model->graph.parameters().back().name, "language_model.lm_head.weight");
}

TEST(WrappersTest, WhatTheOuterObjectSaysOfWeightsWins) {
  Json config = Json::parse(kMistral);
  EXPECT_FALSE(describe(config)->config.tie_word_embeddings);
  config["text_config"]["tie_word_embeddings"] = true;
  EXPECT_TRUE(describe(config)->config.tie_word_embeddings);
  config["tie_word_embeddings"] = false;
  EXPECT_FALSE(describe(config)->config.tie_word_embeddings);
}

TEST(WrappersTest, AModelTypeOfTheTextChoosesItsArchitecture) {
  Json config = Json::parse(kMistral);
  config["text_config"]["model_type"] = "ministral3";
  EXPECT_EQ(describe(config)->config.architecture, "Ministral3ForCausalLM");
  config["text_config"]["model_type"] = "llama";
  EXPECT_THAT(error_of(config),
              HasSubstr("text_config.model_type: \"llama\" is not supported in "
                        "Mistral3ForConditionalGeneration; supported: mistral, ministral3"));
}

TEST(WrappersTest, NothingIsIgnoredInSilence) {
  Json config = Json::parse(kMistral);
  config["fusion_layers"] = 3;
  EXPECT_THAT(error_of(config), HasSubstr("fusion_layers: unknown here"));
  config.erase("fusion_layers");
  config["rope_theta"] = 5;
  EXPECT_THAT(error_of(config), HasSubstr("rope_theta: wanted in text_config, found beside it"));
  config.erase("rope_theta");
  config["text_config"]["anything"] = 3;
  EXPECT_THAT(error_of(config), HasSubstr("anything: unknown here"));
  config["text_config"] = nullptr;
  EXPECT_THAT(error_of(config), HasSubstr("text_config: wanted an object, found null"));
}

// Which of three positions turns which columns is nothing to text, where they are alike.
TEST(WrappersTest, ThePositionsOfImagesAreLeftOutWhereTheTextPartHasItsOwnObject) {
  const Json sections = {
      {"mrope_interleaved", true}, {"mrope_section", {24, 20, 20}}, {"rope_type", "default"}};
  Json config = {{"architectures", {"Qwen3VLForConditionalGeneration"}},
                 {"image_token_id", 151655},
                 {"video_token_id", 151656},
                 {"vision_start_token_id", 151652},
                 {"vision_end_token_id", 151653},
                 {"vision_config", {{"depth", 27}}},
                 {"text_config",
                  {{"model_type", "qwen3_vl_text"},
                   {"vocab_size", 512},
                   {"hidden_size", 64},
                   {"intermediate_size", 96},
                   {"num_hidden_layers", 1},
                   {"num_attention_heads", 4},
                   {"num_key_value_heads", 2},
                   {"max_position_embeddings", 128},
                   {"rope_theta", 5000000},
                   {"rope_scaling", sections}}}};
  const absl::StatusOr<ModelDescription> model = describe(config);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(model->config.rope.rotary_dim, 128);
  EXPECT_THAT(model->graph.parameters().front().pieces.front().source(),
              StartsWith("model.language_model.embed_tokens"));
  EXPECT_EQ(model->graph.parameters().back().pieces.front().source(), "lm_head.weight");
  config["text_config"]["rope_scaling"]["mrope_other"] = 1;
  EXPECT_THAT(error_of(config), HasSubstr("mrope_other: unknown"));
}

TEST(WrappersTest, ModelsThatTurnByThreePositionsAreRefusedByName) {
  EXPECT_THAT(error_of({{"architectures", {"Qwen2_5_VLForConditionalGeneration"}}}),
              HasSubstr("\"Qwen2_5_VLForConditionalGeneration\" is not supported: its text part "
                        "turns by three positions per token (mrope)"));
}

}  // namespace
}  // namespace lockstep
