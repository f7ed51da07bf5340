// SPDX-License-Identifier: Apache-2.0
#include "models/config/wrappers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/models/described_config.h"

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

absl::StatusOr<ModelDescription> describe(const Json& config,
                                          const std::vector<std::string>& ignored = {}) {
  return describe_config(config.dump(), "{}", ignored);
}

std::string error_of(const Json& config) {
  const absl::StatusOr<ModelDescription> model = describe(config);
  return model.ok() ? "" : message_of(model.status());
}

TEST(WrappersTest, AMissingSizeOfGemma3HasTheReferencesDefault) {
  const absl::StatusOr<ModelDescription> model = describe(Json::parse(kGemma));
  ASSERT_TRUE(model.ok()) << model.status();
  const Described config = described(*model);
  EXPECT_EQ(config.architecture, "Gemma3ForCausalLM");
  EXPECT_EQ(config.vocab_size, 262208);
  EXPECT_EQ(config.heads, 8);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.context, 131072);
  EXPECT_EQ(config.eos_token_ids, (std::vector<int64_t>{1, 106}));
  EXPECT_EQ(config.dtype, DType::kBF16);
  EXPECT_FLOAT_EQ(config.rope.inv_freq(0), 0.125f);
  EXPECT_FLOAT_EQ(config.window_rope.inv_freq(0), 1);
}

TEST(WrappersTest, TensorsOfTheTextPartHaveItsPrefix) {
  const absl::StatusOr<ModelDescription> model = describe(Json::parse(kMistral));
  ASSERT_TRUE(model.ok()) << model.status();
  for (const Parameter& parameter : model->graph.parameters()) {
    EXPECT_THAT(parameter.pieces[0].source(), StartsWith("language_model."));
  }
  EXPECT_EQ(model->graph.parameters().back().name, "language_model.lm_head.weight");
}

TEST(WrappersTest, TheOuterObjectDecidesTheTypeOfWeights) {
  Json config = Json::parse(kMistral);
  config["text_config"]["torch_dtype"] = "float32";
  config["torch_dtype"] = "bfloat16";
  EXPECT_EQ(describe(config)->config.dtype, DType::kBF16);
}

// Some releases of transformers write the outer key's default even if the model differs.
TEST(WrappersTest, AHeadIsTiedIfOneObjectSaysTrueAndNoneSaysFalse) {
  const auto tied = [](const Json& outer, const Json& inner) {
    Json config = Json::parse(kMistral);
    config["tie_word_embeddings"] = outer;
    config["text_config"]["tie_word_embeddings"] = inner;
    return describe(config)->config.tie_word_embeddings;
  };
  EXPECT_FALSE(tied(nullptr, nullptr));
  EXPECT_TRUE(tied(nullptr, true));
  EXPECT_TRUE(tied(true, nullptr));
  EXPECT_TRUE(tied(true, true));
  EXPECT_FALSE(tied(true, false));
  EXPECT_FALSE(tied(false, true));
}

TEST(WrappersTest, TheTextPartsModelTypeChoosesItsArchitecture) {
  Json config = Json::parse(kMistral);
  config["text_config"]["model_type"] = "ministral3";
  EXPECT_EQ(describe(config)->config.architecture, "Ministral3ForCausalLM");
  config["text_config"]["model_type"] = "t5";
  EXPECT_THAT(error_of(config),
              HasSubstr("text_config.model_type: a string (\"t5\") is not supported in "
                        "Mistral3ForConditionalGeneration; docs/models.md lists what is"));
}

TEST(WrappersTest, NothingIsIgnoredSilently) {
  Json config = Json::parse(kMistral);
  config["fusion_layers"] = 3;
  EXPECT_THAT(error_of(config), HasSubstr("fusion_layers: unknown here"));
  config.erase("fusion_layers");
  config["rope_theta"] = 5;
  EXPECT_THAT(error_of(config), HasSubstr("rope_theta: must be in text_config, found beside it"));
  config.erase("rope_theta");
  config["text_config"]["anything"] = 3;
  EXPECT_THAT(error_of(config), HasSubstr("text_config.anything: unknown here"));
  config["text_config"] = nullptr;
  EXPECT_THAT(error_of(config), HasSubstr("text_config: must be an object, found null"));
}

// A piece of an image has three positions. For text all three are equal, so it does not matter
// which position rotates which columns.
TEST(WrappersTest, ImagePositionsAreIgnoredIfTheTextPartHasItsOwnObject) {
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
  EXPECT_EQ(described(*model).rotary.rotary_dim(), 128);
  EXPECT_THAT(model->graph.parameters().front().pieces.front().source(),
              StartsWith("model.language_model.embed_tokens"));
  EXPECT_EQ(model->graph.parameters().back().pieces.front().source(), "lm_head.weight");
  config["text_config"]["rope_scaling"]["mrope_other"] = 1;
  EXPECT_THAT(error_of(config), HasSubstr("rope_scaling.mrope_other: unknown"));
}

// A text part with one layer; `more` has the other keys that its kind needs.
Json text_of(const char* model_type, const Json& more = Json::object()) {
  Json text = {{"model_type", model_type}, {"vocab_size", 512},
               {"hidden_size", 64},        {"intermediate_size", 96},
               {"num_hidden_layers", 1},   {"num_attention_heads", 4},
               {"num_key_value_heads", 2}, {"max_position_embeddings", 128}};
  text.update(more);
  return text;
}

struct Wrapped {
  const char* wrapper;
  const char* object;  // The key of the text part's object.
  Json text;
  Json beside;
  const char* architecture;
  const char* embedding;  // The first tensor's name.
  const char* head;
};

std::vector<Wrapped> wrapped_models() {
  static constexpr char kInner[] = "model.language_model.embed_tokens.weight";
  static constexpr char kOuter[] = "language_model.model.embed_tokens.weight";
  const Json experts = {{"moe_intermediate_size", 32}, {"num_experts", 4},
                        {"num_experts_per_tok", 2},    {"mlp_only_layers", Json::array()},
                        {"decoder_sparse_step", 1},    {"norm_topk_prob", true}};
  const Json latent = {{"moe_intermediate_size", 32},
                       {"n_routed_experts", 4},
                       {"num_experts_per_tok", 2},
                       {"first_k_dense_replace", 0},
                       {"q_lora_rank", 16},
                       {"kv_lora_rank", 16},
                       {"qk_nope_head_dim", 16},
                       {"qk_rope_head_dim", 8},
                       {"v_head_dim", 16},
                       {"n_group", 1},
                       {"topk_group", 1}};
  const Json grouped = {
      {"moe_intermediate_size", 32}, {"n_routed_experts", 4}, {"num_experts_per_tok", 2}};
  const Json seen = {{"vision_config", {{"depth", 27}}}, {"image_token_id", 500}};
  const Json llava = {{"image_token_index", 500},
                      {"image_seq_length", 576},
                      {"ignore_index", -100},
                      {"projector_hidden_act", "gelu"},
                      {"multimodal_projector_bias", true},
                      {"vision_feature_layer", -2},
                      {"vision_feature_select_strategy", "default"},
                      {"image_grid_pinpoints", {{336, 672}}},
                      {"vocab_size", 512}};
  const Json internvl = {
      {"downsample_ratio", 0.5}, {"dynamic_image_size", true}, {"force_image_size", 448},
      {"max_dynamic_patch", 12}, {"min_dynamic_patch", 1},     {"ps_version", "v2"},
      {"select_layer", -1},      {"template", "internvl2_5"},  {"use_thumbnail", true},
      {"use_backbone_lora", 0},  {"use_llm_lora", 0},          {"hidden_size", 64},
      {"pad2square", false}};
  const Json kimi = {{"media_placeholder_token_id", 500},
                     {"ignore_index", -100},
                     {"use_unified_vision_chunk", true},
                     {"video_placeholder", "<video>"}};
  return {
      {"Qwen2VLForConditionalGeneration", "text_config", text_of("qwen2_vl_text"), seen,
       "Qwen2ForCausalLM", "model.embed_tokens.weight", "lm_head.weight"},
      {"Qwen2_5_VLForConditionalGeneration", "text_config", text_of("qwen2_5_vl_text"), seen,
       "Qwen2ForCausalLM", "model.embed_tokens.weight", "lm_head.weight"},
      {"Qwen3VLMoeForConditionalGeneration", "text_config", text_of("qwen3_vl_moe_text", experts),
       seen, "Qwen3MoeForCausalLM", kInner, "lm_head.weight"},
      {"KimiK25ForConditionalGeneration", "text_config", text_of("kimi_k2", latent), kimi,
       "DeepseekV3ForCausalLM", kOuter, "language_model.lm_head.weight"},
      {"LlavaForConditionalGeneration", "text_config", text_of("llama"), llava, "LlamaForCausalLM",
       kOuter, "language_model.lm_head.weight"},
      {"LlavaNextForConditionalGeneration", "text_config", text_of("mistral"), llava,
       "MistralForCausalLM", kOuter, "language_model.lm_head.weight"},
      {"LlavaOnevisionForConditionalGeneration", "text_config", text_of("qwen2"), llava,
       "Qwen2ForCausalLM", kOuter, "language_model.lm_head.weight"},
      {"InternVLForConditionalGeneration", "text_config", text_of("qwen3"), llava,
       "Qwen3ForCausalLM", kOuter, "language_model.lm_head.weight"},
      {"InternVLChatModel", "llm_config", text_of("internlm2"), internvl, "InternLM2ForCausalLM",
       "language_model.model.tok_embeddings.weight", "language_model.output.weight"},
      {"Exaone4_5_ForConditionalGeneration", "text_config", text_of("exaone4_5_text"), seen,
       "Exaone4ForCausalLM", kInner, "lm_head.weight"},
      {"Glm4vForConditionalGeneration", "text_config", text_of("glm4v_text"), seen,
       "Glm4ForCausalLM", kInner, "lm_head.weight"},
      {"Glm46VForConditionalGeneration", "language_config", text_of("glm4v_text"), seen,
       "Glm4ForCausalLM", kInner, "lm_head.weight"},
      {"Glm4vMoeForConditionalGeneration", "text_config", text_of("glm4v_moe_text", grouped), seen,
       "Glm4MoeForCausalLM", kInner, "lm_head.weight"},
  };
}

TEST(WrappersTest, TheTextPartOfAVisionModelIsDescribed) {
  for (const Wrapped& wrapped : wrapped_models()) {
    SCOPED_TRACE(wrapped.wrapper);
    Json config = wrapped.beside;
    config["architectures"] = {wrapped.wrapper};
    config[wrapped.object] = wrapped.text;
    const absl::StatusOr<ModelDescription> model = describe(config);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->config.architecture, wrapped.architecture);
    const auto& parameters = model->graph.parameters();
    EXPECT_EQ(parameters.front().pieces.front().source(), wrapped.embedding);
    EXPECT_EQ(parameters.back().pieces.front().source(), wrapped.head);
    config[wrapped.object]["unheard"] = 3;
    EXPECT_THAT(error_of(config), HasSubstr(std::string("--ignore-config ") + wrapped.object +
                                            ".unheard runs without it"));
  }
}

TEST(WrappersTest, ExpertsOfQwen3VlAreInStacksWithInputsFirst) {
  const Wrapped wrapped = wrapped_models()[2];
  const absl::StatusOr<ModelDescription> model =
      describe({{"architectures", {wrapped.wrapper}}, {"text_config", wrapped.text}});
  ASSERT_TRUE(model.ok()) << model.status();
  for (const Parameter& parameter : model->graph.parameters()) {
    const program::Piece& piece = parameter.pieces.front();
    if (!piece.source().ends_with("experts.gate_up_proj")) continue;
    EXPECT_EQ(piece.source(), "model.language_model.layers.0.mlp.experts.gate_up_proj");
    EXPECT_TRUE(piece.transpose());
    EXPECT_THAT(piece.source_shape(), testing::ElementsAre(4, 64, 64));
    return;
  }
  FAIL() << "no stack of experts";
}

// Qwen2-VL was published like this: without an object for the text part, with its own rotary
// scaling.
TEST(WrappersTest, AFlatConfigIsTheTextPart) {
  Json config = text_of("qwen2_vl");
  config["architectures"] = {"Qwen2VLForConditionalGeneration"};
  config["vision_config"] = {{"depth", 32}};
  config["vision_token_id"] = 500;
  config["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {2, 3, 3}}};
  config["use_sliding_window"] = false;
  const absl::StatusOr<ModelDescription> model = describe(config);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.architecture, "Qwen2ForCausalLM");
  EXPECT_TRUE(described(*model).qkv_bias);
  EXPECT_FLOAT_EQ(described(*model).norm_eps, 1e-5f);
  EXPECT_FLOAT_EQ(described(*model).rope.inv_freq(1), std::pow(1e6f, -1.0f / 8));
  config["anything"] = 3;
  EXPECT_THAT(error_of(config), HasSubstr("config.json: anything: unknown here"));
  config.erase("anything");
  config["is_causal"] = false;
  EXPECT_THAT(error_of(config), HasSubstr("is_causal: false is not supported"));
}

TEST(WrappersTest, AFlatConfigOfQwen2VlHasTheDefaultSizesOfItsClass) {
  const absl::StatusOr<ModelDescription> model = describe(
      {{"architectures", {"Qwen2VLForConditionalGeneration"}}, {"model_type", "qwen2_vl"}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.hidden_size, 8192);
  EXPECT_EQ(model->config.intermediate_size, 29568);
  EXPECT_EQ(model->config.layers, 80);
  EXPECT_EQ(model->config.heads, 64);
  EXPECT_EQ(model->config.kv_heads, 8);
  EXPECT_EQ(model->config.vocab_size, 152064);
}

TEST(WrappersTest, AHeadDimThatTheClassIgnoresMustEqualTheComputedOne) {
  for (const char* type : {"glm4v_text", "qwen2_vl_text", "qwen2_5_vl_text"}) {
    const std::string name =
        type[0] == 'g' ? "Glm4vForConditionalGeneration" : "Qwen2VLForConditionalGeneration";
    Json config = {{"architectures", {name}}, {"text_config", text_of(type, {{"head_dim", 16}})}};
    EXPECT_TRUE(describe(config).ok()) << describe(config).status();
    config["text_config"]["head_dim"] = 32;
    EXPECT_THAT(error_of(config),
                HasSubstr("head_dim: must be hidden_size / num_attention_heads (64 / 4)"));
  }
}

TEST(WrappersTest, ALlavaConfigHasTheDefaultSizesOfItsTextClass) {
  const absl::StatusOr<ModelDescription> model =
      describe({{"architectures", {"LlavaForConditionalGeneration"}},
                {"text_config", {{"model_type", "llama"}, {"vocab_size", 32064}}},
                {"vocab_size", 32064}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.vocab_size, 32064);
  EXPECT_EQ(model->config.intermediate_size, 11008);
  EXPECT_EQ(model->config.layers, 32);
}

TEST(WrappersTest, ALlavaOnevisionConfigHasTheDefaultSizesOfQwen2) {
  const absl::StatusOr<ModelDescription> model =
      describe({{"architectures", {"LlavaOnevisionForConditionalGeneration"}},
                {"text_config", {{"model_type", "qwen2"}, {"num_hidden_layers", 2}}}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.vocab_size, 151936);
  EXPECT_EQ(model->config.intermediate_size, 22016);
  EXPECT_EQ(model->config.kv_heads, 32);
  EXPECT_EQ(model->config.context, 32768);
}

// The class of the text model has a default for num_hidden_layers, but n_layers may be that size.
TEST(WrappersTest, AKeyThatMayBeAMissingSizeCannotBeIgnored) {
  for (const auto& [wrapper, type] : {std::pair{"LlavaForConditionalGeneration", "llama"},
                                      {"Mistral3ForConditionalGeneration", "mistral"}}) {
    const Json config = {
        {"architectures", {wrapper}},
        {"text_config", {{"model_type", type}, {"n_layers", 40}, {"vocab_size", 32064}}}};
    EXPECT_THAT(message_of(describe(config, {"text_config.n_layers"}).status()),
                HasSubstr("--ignore-config n_layers: it may be num_hidden_layers, which"));
  }
}

TEST(WrappersTest, AMissingModelTypeIsTakenFromTheWrapper) {
  Json text = wrapped_models()[2].text;
  text.erase("model_type");
  const absl::StatusOr<ModelDescription> model =
      describe({{"architectures", {"Qwen3VLMoeForConditionalGeneration"}}, {"text_config", text}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(model->config.experts.either_layout);
  const auto& parameters = model->graph.parameters();
  EXPECT_TRUE(std::ranges::any_of(parameters, [](const Parameter& parameter) {
    return parameter.pieces.front().source().ends_with("experts.gate_up_proj");
  }));
}

TEST(WrappersTest, GlmVisionModelsHaveBiasesByDefault) {
  Json config = {{"architectures", {"Glm4vForConditionalGeneration"}},
                 {"text_config", text_of("glm4v_text", {{"head_dim", 16}})}};
  EXPECT_TRUE(described(*describe(config)).qkv_bias);
  EXPECT_EQ(described(*describe(config)).rotary.rotary_dim(), 16);
  config["text_config"]["rope_parameters"] = {
      {"rope_type", "default"}, {"mrope_section", {2, 1, 1}}, {"partial_rotary_factor", 0.5}};
  EXPECT_EQ(described(*describe(config)).rotary.rotary_dim(), 8);
  config["text_config"].erase("head_dim");
  EXPECT_EQ(describe(config)->config.head_dim, 16);
}

}  // namespace
}  // namespace lockstep
