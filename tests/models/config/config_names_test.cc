// SPDX-License-Identifier: Apache-2.0
// The spellings that releases of transformers use for one key, and the keys that --ignore-config
// can name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/summary.h"
#include "tests/models/described_config.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr char kMoe[] = R"({"architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 320,
    "hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32, "num_experts": 6,
    "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 16,
    "num_key_value_heads": 2, "max_position_embeddings": 128})";
constexpr char kVision[] = R"({"architectures": ["Qwen3VLForConditionalGeneration"],
    "text_config": {"model_type": "qwen3_vl_text", "vocab_size": 320, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128}})";

absl::StatusOr<ModelDescription> ignoring(const Json& json, const std::vector<std::string>& keys) {
  return describe_config(json.dump(), "{}", keys);
}

// The flags in a message, as a shell reads them.
std::vector<std::string> flags_of(const std::string& message) {
  std::vector<std::string> keys;
  const std::string flag = "--ignore-config ";
  for (size_t at = message.find(flag); at != message.npos; at = message.find(flag, at)) {
    at += flag.size();
    keys.push_back(message.substr(at, message.find(' ', at) - at));
  }
  return keys;
}

TEST(ConfigNamesTest, TheNumberOfExpertsHasThreeNames) {
  const Json published = Json::parse(kMoe);
  for (const char* name : {"num_local_experts", "n_routed_experts"}) {
    Json json = published;
    json[name] = 6;
    EXPECT_EQ(config_of(json.dump()).experts.count, 6) << name;
    json.erase("num_experts");
    EXPECT_EQ(config_of(json.dump()).experts.count, 6) << name;
    json["num_experts"] = 7;
    expect_refused(json.dump(), std::string(name) + " and num_experts are both there and differ");
  }
  expect_refused(kMoe, R"({"num_experts": null, "num_local_experts": 0})",
                 "num_local_experts: must be an integer from 1");
}

TEST(ConfigNamesTest, ALeadingUnderscoreIsAcceptedAsAnotherSpelling) {
  const Described config = config_of(R"({"architectures": ["Cohere2ForCausalLM"], "vocab_size": 320,
      "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "sliding_window": 8, "_sliding_window_pattern": 2, "max_position_embeddings": 128})");
  EXPECT_EQ(config.windows, (std::vector<int64_t>{8, 0, 8, 0}));
}

TEST(ConfigNamesTest, AListByLayerGivesTheNumberOfLayers) {
  const Described config = config_of(R"({"architectures": ["NemotronHForCausalLM"],
      "vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 16, "mamba_num_heads": 8, "mamba_head_dim": 16,
      "n_groups": 2, "ssm_state_size": 16, "max_position_embeddings": 128,
      "layers_block_type": ["linear_attention", "full_attention", "mlp"],
      "mtp_layers_block_type": ["full_attention"], "num_nextn_predict_layers": 0,
      "time_step_limit": [0.0, {"__float__": "Infinity"}]})");
  EXPECT_EQ(config.layers, 3);
  EXPECT_EQ(config.kinds, "M*-");
}

TEST(ConfigNamesTest, AnIndexerLimitsTheContextToTheNumberOfKeysThatItSelects) {
  const std::string sparse = R"({"architectures": ["GlmMoeDsaForCausalLM"], "vocab_size": 320,
      "hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32,
      "n_routed_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2,
      "num_attention_heads": 4, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 16,
      "v_head_dim": 16, "qk_rope_head_dim": 8, "head_dim": 24, "first_k_dense_replace": 1,
      "max_position_embeddings": 4096, "index_topk": 64, "index_n_heads": 2, "index_head_dim": 8,
      "index_topk_freq": 4, "indexer_rope_interleave": true, "moe_router_dtype": "float32"})";
  EXPECT_EQ(config_of(sparse).head_dim, 8);  // The width of the rotated columns.
  EXPECT_EQ(config_of(sparse).context, 64);
  for (const char* type : {"indexed_attention", "deepseek_sparse_attention"}) {
    Json json = Json::parse(sparse);
    json["layer_types"] = {type, type};
    EXPECT_EQ(config_of(json.dump()).windows, std::vector<int64_t>(2, 0));
    json["layer_types"] = {type, "sliding_attention"};
    expect_refused(json.dump(), "layer_types[1]");
    Json dense = Json::parse(kMoe);
    dense["layer_types"] = {type, type};
    expect_refused(dense.dump(), "layer_types[0]");
  }
  expect_refused(sparse, R"({"num_experts": 5})",
                 "num_experts and n_routed_experts are both there");
}

TEST(ConfigNamesTest, FactorsForOtherProgramsAreIgnoredAsInTransformers) {
  const std::string yarn = R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
      "original_max_position_embeddings": 32}})";
  const std::string other = R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0,
      "original_max_position_embeddings": 32, "attn_factor": 0.878}})";
  const Described config = config_of(kMoe, other);
  EXPECT_FLOAT_EQ(config.rope.factor(), 1.1386294f);
  EXPECT_EQ(config.rope.SerializeAsString(), config_of(kMoe, yarn).rope.SerializeAsString());
}

TEST(ConfigNamesTest, BothFormsOfRotaryScalingMayBeGivenIfTheyAgree) {
  const std::string both = R"({"rope_scaling": {"rope_type": "linear", "factor": 2.0},
      "rope_parameters": {"rope_type": "linear", "factor": 2.0}})";
  EXPECT_TRUE(describe_config(kMoe, both).ok());
}

TEST(ConfigNamesTest, AllNamesOfAnActivationMeanOneFormula) {
  for (const char* name : {"gelu_fast", "gelu_new", "gelu_pytorch_tanh", "gelu_accurate"}) {
    EXPECT_EQ(config_of(kMoe, fmt::format(R"({{"hidden_act": "{}"}})", name)).activation,
              Function::kGeluTanh);
  }
}

TEST(ConfigNamesTest, OneMessageNamesAllUnknownKeysAndItsFlagsWork) {
  Json json = Json::parse(kVision);
  json["fusion_layers"] = 3;
  json["a.name.with.dots"] = 3;
  json["text_config"]["qk_shift"] = 1.5;
  json["text_config"]["other.cap"] = 2;
  const absl::StatusOr<ModelDescription> model = ignoring(json, {});
  ASSERT_FALSE(model.ok());
  const std::string message = message_of(model.status());
  EXPECT_THAT(flags_of(message),
              testing::ElementsAre("a.name.with.dots", "fusion_layers", "text_config.other.cap",
                                   "text_config.qk_shift"));
  EXPECT_THAT(message, HasSubstr(" runs without them"));
  const absl::StatusOr<ModelDescription> rest = ignoring(json, flags_of(message));
  EXPECT_TRUE(rest.ok()) << rest.status();
  // A key of the text part may also be given without "text_config.".
  EXPECT_TRUE(ignoring(json, {"a.name.with.dots", "fusion_layers", "other.cap", "qk_shift"}).ok());
}

TEST(ConfigNamesTest, OneMessageNamesAllUnknownKeysOfRotaryScaling) {
  Json json = Json::parse(kVision);
  json["text_config"]["rope_parameters"] = {{"rope_type", "default"}, {"shift", 1}, {"tilt", 2}};
  const absl::StatusOr<ModelDescription> model = ignoring(json, {});
  ASSERT_FALSE(model.ok());
  const std::vector<std::string> flags = flags_of(message_of(model.status()));
  EXPECT_THAT(flags, testing::ElementsAre("rope_parameters.shift", "rope_parameters.tilt"));
  EXPECT_TRUE(ignoring(json, flags).ok());
}

TEST(ConfigNamesTest, TheSuggestedFlagIgnoresAKeyInTheRopeOfOneLayerType) {
  Json text = {{"model_type", "gemma3_text"}, {"vocab_size", 320},       {"hidden_size", 64},
               {"intermediate_size", 96},     {"num_hidden_layers", 2},  {"head_dim", 16},
               {"num_attention_heads", 4},    {"num_key_value_heads", 2}};
  for (const std::string kind : {"full_attention", "sliding_attention"}) {
    Json json = {{"architectures", {"Gemma3ForConditionalGeneration"}}, {"text_config", text}};
    Json& ropes = json["text_config"]["rope_parameters"];
    ropes = {{"full_attention", {{"rope_type", "default"}}},
             {"sliding_attention", {{"rope_type", "default"}}}};
    ropes[kind]["shift"] = 1;
    const absl::StatusOr<ModelDescription> model = ignoring(json, {});
    ASSERT_FALSE(model.ok()) << kind;
    const std::vector<std::string> flags = flags_of(message_of(model.status()));
    EXPECT_THAT(flags, testing::ElementsAre("rope_parameters." + kind + ".shift"));
    const absl::StatusOr<ModelDescription> rest = ignoring(json, flags);
    EXPECT_TRUE(rest.ok()) << rest.status();
  }
}

TEST(ConfigNamesTest, AMessageWithAThousandKeysIsShortened) {
  Json json = Json::parse(kMoe);
  for (int i = 0; i < 1000; ++i) json[fmt::format("unheard_{}", i)] = i + 1;
  const absl::StatusOr<ModelDescription> model = ignoring(json, {});
  EXPECT_THAT(message_of(model.status()), HasSubstr(" and 968 more: unknown here"));
}

TEST(ConfigNamesTest, AKeyThatMayBeAMissingSizeCannotBeIgnored) {
  Json json = Json::parse(kMoe);
  json.erase("num_experts");
  for (const char* spelling : {"num_moe_experts", "number_of_experts", "n_experts"}) {
    Json other = json;
    other[spelling] = 6;
    const absl::StatusOr<ModelDescription> model = ignoring(other, {spelling});
    ASSERT_FALSE(model.ok()) << spelling;
    EXPECT_THAT(message_of(model.status()),
                HasSubstr(fmt::format("--ignore-config {}: it may be num_experts, which the config "
                                      "lacks",
                                      spelling)));
    other["num_experts"] = 6;
    EXPECT_TRUE(ignoring(other, {spelling}).ok()) << spelling;
  }
  json["num_experts"] = 6;
  EXPECT_FALSE(ignoring(json, {"num_experts"}).ok());
  EXPECT_FALSE(ignoring(json, {"num_key_value_heads"}).ok());
  json["n_kv_heads"] = 2;
  EXPECT_TRUE(ignoring(json, {"n_kv_heads"}).ok());
  json.erase("num_key_value_heads");
  EXPECT_FALSE(ignoring(json, {"n_kv_heads"}).ok());
}

struct Ignored {
  const char* config;
  const char* size;  // The missing key.
  std::vector<const char*> spellings;
};

TEST(ConfigNamesTest, OtherSpellingsOfAMissingSizeAreRecognized) {
  constexpr char kLlama[] = R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 320,
      "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 128})";
  constexpr char kGpt2[] = R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 320,
      "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "n_inner": 96})";
  const Ignored all[] = {
      {kMoe, "num_experts", {"expert_count", "num_experts_total", "total_experts"}},
      {kLlama,
       "num_key_value_heads",
       {"num_query_groups", "num_gqa_groups", "kv_groups", "multi_query_group_num"}},
      {kGpt2, "n_inner", {"feed_forward_size", "d_ff", "n_ff"}}};
  for (const Ignored& ignored : all) {
    for (const char* spelling : ignored.spellings) {
      Json json = Json::parse(ignored.config);
      json[spelling] = json[ignored.size];
      EXPECT_TRUE(ignoring(json, {spelling}).ok()) << spelling;
      json.erase(ignored.size);
      const absl::StatusOr<ModelDescription> model = ignoring(json, {spelling});
      ASSERT_FALSE(model.ok()) << spelling;
      EXPECT_THAT(message_of(model.status()), HasSubstr(": it may be ")) << spelling;
    }
  }
}

TEST(ConfigNamesTest, AKeyWithAnotherMeaningMayBeIgnored) {
  Json json = Json::parse(kMoe);
  json.erase("num_key_value_heads");
  json.erase("head_dim");
  json["n_heads"] = 4;
  EXPECT_TRUE(ignoring(json, {"n_heads"}).ok());  // num_attention_heads is not missing.
  Json vision = Json::parse(kVision);
  vision["text_config"].erase("head_dim");
  vision["vision_config"] = {{"head_dim", 72}};
  EXPECT_TRUE(ignoring(vision, {"vision_config.head_dim"}).ok());
  vision["text_config"]["dim_head"] = 16;
  EXPECT_FALSE(ignoring(vision, {"text_config.dim_head"}).ok());
}

TEST(ConfigNamesTest, AnUnknownArchitectureNamesTheNearest) {
  expect_refused(
      kMoe, R"({"architectures": ["Qwen9ForCausalLM"]})",
      "architectures: \"Qwen9ForCausalLM\" is not supported; the nearest names that are: "
      "Qwen2ForCausalLM, Qwen3ForCausalLM, ");
  const absl::StatusOr<ModelDescription> model =
      describe_config(kMoe, R"({"architectures": ["FnordForCausalLM"]})");
  EXPECT_LT(message_of(model.status()).size(), 400u);
  EXPECT_THAT(message_of(model.status()), HasSubstr("docs/models.md"));
}

TEST(ConfigNamesTest, EachParameterIsCountedOnce) {
  const auto count = [](const char* patch) {
    return summarize(describe_config(kMoe, patch)->graph).parameters;
  };
  const int64_t attention = 64 * (64 + 32 + 32) + 64 * 64 + 2 * 16;
  const int64_t experts = 6 * 64 + 6 * 3 * 64 * 32;
  const int64_t layers = 2 * (attention + experts + 2 * 64);
  EXPECT_EQ(count("{}"), 2 * 320 * 64 + 64 + layers);
  EXPECT_EQ(count(R"({"tie_word_embeddings": true})"), 320 * 64 + 64 + layers);
}

}  // namespace
}  // namespace lockstep
