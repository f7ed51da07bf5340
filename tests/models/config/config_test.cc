// SPDX-License-Identifier: Apache-2.0
// config.json: defaults by family, the old and the new form of a key, and every possible error: one
// line that names the key.
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "tests/models/described_config.h"

namespace lockstep {
namespace {

constexpr char kLlama[] = R"({
  "architectures": ["LlamaForCausalLM"], "vocab_size": 320, "hidden_size": 64,
  "intermediate_size": 124, "num_hidden_layers": 4, "num_attention_heads": 8,
  "max_position_embeddings": 256})";

struct Wrong {
  const char* name;
  const char* patch;
  const char* says;  // Expected in the message.
};
void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

constexpr Wrong kWrong[] = {
    {"MissingSize", R"({"hidden_size": null})",
     "hidden_size: must be an integer from 1 to 1048576, found nothing"},
    {"SizeOfAnotherType", R"({"vocab_size": "many"})", "vocab_size: must be an integer"},
    {"SizeWithAFraction", R"({"vocab_size": 3.5})", "vocab_size: must be an integer"},
    {"SizeOfZero", R"({"num_hidden_layers": 0})", "num_hidden_layers: must be an integer from 1"},
    {"NegativeSize", R"({"intermediate_size": -4})",
     "intermediate_size: must be an integer from 1"},
    {"InsaneSize", R"({"vocab_size": 1000000000000})", "vocab_size: must be an integer from 1 to"},
    {"SizePast63Bits", R"({"vocab_size": 18446744073709551615})", "vocab_size"},
    {"KvHeadsThatDivideNothing", R"({"num_key_value_heads": 3})",
     "num_key_value_heads: must be a divisor of num_attention_heads (8), found 3"},
    {"MoreKvHeadsThanHeads", R"({"num_key_value_heads": 16})", "num_key_value_heads"},
    {"HiddenThatHeadsDoNotDivide", R"({"hidden_size": 65})", "hidden_size: must be a multiple"},
    {"OddHeadDim", R"({"head_dim": 7})", "head_dim: must be an even number"},
    {"EpsOfZero", R"({"rms_norm_eps": 0})", "rms_norm_eps: must be a number from 1e-30"},
    {"AnotherActivation", R"({"hidden_act": "quick_gelu"})",
     "hidden_act: \"quick_gelu\" is not supported; supported: silu, "},
    {"Quantized", R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})",
     "quantization_config: the weights are stored by the method \"gptq\""},
    {"QuantizedInNoWay", R"({"quantization_config": {"bits": 4}})",
     "quantization_config: the weights are stored by an object, which is not supported; take the "},
    {"QuantizedByANewerVersion",
     R"({"quantization_config": {"quant_method": "lockstep", "scheme": "q4", "version": 2}})",
     "quantization_config: must be version 1 and a scheme, found version an integer (2)"},
    {"QuantizedInNoScheme",
     R"({"quantization_config": {"quant_method": "lockstep", "version": 1}})",
     "quantization_config: must be version 1 and a scheme"},
    {"AnotherDtype", R"({"torch_dtype": "float64"})", "torch_dtype: \"float64\" is not supported"},
    {"AnotherDtypeInTheNewForm", R"({"dtype": "int8"})", "dtype: \"int8\" is not supported"},
    {"UnknownKey", R"({"logits_soft_cap": 30.0})",
     "logits_soft_cap: unknown here and may change what the model computes (found a number that is "
     "not an integer (30)); --ignore-config logits_soft_cap runs without it"},
    {"UnknownKeyThatIsTrue", R"({"use_parallel_residual": true})", "use_parallel_residual"},
    {"WindowInAFamilyWithout", R"({"sliding_window": 16})", "--ignore-config sliding_window"},
    {"NoArchitecture", R"({"architectures": null})",
     "architectures: must be a list of one name (docs/models.md has them), found nothing"},
    {"TwoArchitectures", R"({"architectures": ["LlamaForCausalLM", "X"]})", "architectures"},
    {"AnotherArchitecture", R"({"architectures": ["FnordForCausalLM"]})",
     "architectures: \"FnordForCausalLM\" is not supported; the nearest names that are: "},
    {"RopeThetaOfZero", R"({"rope_theta": 0})", "rope_theta: must be a number from"},
    {"RopeThetaOfAnotherType", R"({"rope_theta": "big"})", "rope_theta: must be a number"},
    {"RopeScalingOfAnotherType", R"({"rope_scaling": 3})", "rope_scaling: must be an object"},
    {"UnknownRopeKind", R"({"rope_scaling": {"rope_type": "su"}})",
     "rope_scaling.rope_type: \"su\" is not supported; supported: default, linear, dynamic, "
     "llama3, yarn, longrope"},
    {"RopeWithoutFactor", R"({"rope_scaling": {"type": "linear"}})",
     "rope_scaling.factor: must be a number, found"},
    {"RopeFactorBelowOne", R"({"rope_parameters": {"rope_type": "linear", "factor": 0.5}})",
     "rope_parameters.factor: must be a number from 1"},
    {"Llama3WithCrossedFactors",
     R"({"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
         "high_freq_factor": 1, "original_max_position_embeddings": 64}})",
     "rope_scaling.high_freq_factor: must be low_freq_factor (4) or more"},
    {"UnknownRopeKey", R"({"rope_scaling": {"rope_type": "default", "beta_fast": 2}})",
     "--ignore-config rope_scaling.beta_fast"},
    {"BothRopeForms", R"({"rope_scaling": {"type": "linear", "factor": 2},
                          "rope_parameters": {"rope_type": "default"}})",
     "rope_scaling and rope_parameters are both there"},
    {"PartialRotary", R"({"partial_rotary_factor": 0.5})", "partial_rotary_factor: 0.5"},
    {"EosPastTheVocabulary", R"({"eos_token_id": [2, 320]})", "eos_token_id: must be a token id"},
    {"BosOfAnotherType", R"({"bos_token_id": "<s>"})", "bos_token_id: must be a token id"},
    {"TieOfAnotherType", R"({"tie_word_embeddings": 1})",
     "tie_word_embeddings: must be true or false"},
    {"LayerTypesOfAnotherLength", R"({"layer_types": ["full_attention"]})",
     "layer_types: must be a list of 4 layers"},
    {"WindowsInAFamilyWithout",
     R"({"layer_types": ["full_attention", "full_attention", "sliding_attention",
                         "full_attention"]})",
     "layer_types[2]: a string (\"sliding_attention\") contradicts"},
    {"UnknownLayerType",
     R"({"layer_types": ["full_attention", "full_attention", "linear_attention",
                         "full_attention"]})",
     "layer_types[2]"},
    {"LongropeWithoutFactors", R"({"rope_scaling": {"type": "longrope"}})",
     "rope_scaling.short_factor: must be a list of"},
    {"LongropeByAnOlderName",
     R"({"architectures": ["Phi3ForCausalLM"], "rope_scaling": {"type": "yarn", "beta_fast": 2}})",
     "--ignore-config rope_scaling.beta_fast runs without it (of the kind \"longrope\")"},
    {"NoRopeLayersOfAnotherLength",
     R"({"architectures": ["SmolLM3ForCausalLM"], "no_rope_layers": [1, 0, 1]})",
     "no_rope_layers: must be a list of 4 layers, found 3"},
    {"NoRopeLayersOfAnotherType",
     R"({"architectures": ["SmolLM3ForCausalLM"], "no_rope_layers": [1, 0, 1, 2]})",
     "no_rope_layers[3]: must be 0 or 1, found an integer (2)"},
    {"AKeyUnderItsPublishedName", R"({"architectures": ["InternLMForCausalLM"], "bias": 3})",
     "bias: must be true or false"},
    {"AKeyUnderTwoNames",
     R"({"architectures": ["InternLMForCausalLM"], "bias": true, "attention_bias": false})",
     "bias and attention_bias are both there and differ"},
    {"RotaryOfAnotherBase",
     R"({"architectures": ["InternLMForCausalLM"], "rotary": {"type": "dynamic", "base": 500}})",
     "rotary: {\"base\":500,\"type\":\"dynamic\"} is not supported; supported: type origin"},
};

class WrongConfigTest : public testing::TestWithParam<Wrong> {};

TEST_P(WrongConfigTest, AnErrorIsOneLineThatNamesTheFileAndTheKey) {
  const absl::StatusOr<ModelDescription> model = describe_config(kLlama, GetParam().patch);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message = message_of(model.status());
  EXPECT_NE(message.find(GetParam().says), std::string::npos) << message;
  EXPECT_NE(message.find("config.json: "), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Keys, WrongConfigTest, testing::ValuesIn(kWrong),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ConfigTest, NanAndInfinityAreErrorsInOneLine) {
  for (const char* literal : {"NaN", "Infinity", "-Infinity", "1e999"}) {
    const std::string text =
        std::string(kLlama).insert(1, fmt::format("\"rope_theta\": {},", literal));
    const absl::StatusOr<ModelDescription> model = describe_config(text);
    ASSERT_FALSE(model.ok()) << literal;
    EXPECT_EQ(message_of(model.status()).find('\n'), std::string::npos);
    EXPECT_NE(message_of(model.status()).find("config.json"), std::string::npos);
  }
}

TEST(ConfigTest, AnythingButAnObjectIsAnError) {
  for (const char* text : {"", "[]", "3", "null", "{", "\"x\""}) {
    EXPECT_FALSE(describe_config(text).ok()) << text;
  }
}

TEST(ConfigTest, AMissingFolderNamesTheFile) {
  const absl::StatusOr<ModelDescription> model = describe_model("/nonexistent/model", {}, 0);
  ASSERT_FALSE(model.ok());
  EXPECT_NE(message_of(model.status()).find("/nonexistent/model/config.json"), std::string::npos);
}

TEST(ConfigTest, IgnoredKeysChangeNothing) {
  EXPECT_TRUE(describe_config(kLlama, R"({"logits_soft_cap": 30.0})", {"logits_soft_cap"}).ok());
  EXPECT_TRUE(describe_config(kLlama,
                              R"({"rope_scaling": {"rope_type": "default", "beta_fast": 2}})",
                              {"rope_scaling.beta_fast"})
                  .ok());
  const absl::StatusOr<ModelDescription> model = describe_config(kLlama, "{}", {"no_such_key"});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(message_of(model.status()), "--ignore-config no_such_key: the config has no such key");
}

TEST(ConfigTest, NullFalseAndHarmlessKeysAreAccepted) {
  EXPECT_TRUE(describe_config(kLlama, R"({"use_parallel_residual": false, "pretraining_tp": 2,
                                  "initializer_range": 0.02, "transformers_version": "5"})")
                  .ok());
  std::string text = kLlama;
  text.insert(1, R"("anything_at_all": null,)");
  EXPECT_TRUE(describe_config(text).ok());
}

TEST(ConfigTest, DefaultsAreThoseOfTheFamily) {
  const Described llama = config_of(kLlama, "{}");
  EXPECT_EQ(llama.kv_heads, 8);
  EXPECT_EQ(llama.head_dim, 8);
  EXPECT_FLOAT_EQ(llama.norm_eps, 1e-6f);
  EXPECT_FALSE(llama.tie_word_embeddings || llama.qkv_bias || llama.mlp_bias || llama.normed_q);
  EXPECT_EQ(llama.windows, std::vector<int64_t>(4, 0));
  EXPECT_EQ(llama.context, 256);
  const Described mistral = config_of(kLlama, R"({"architectures": ["MistralForCausalLM"]})");
  EXPECT_EQ(mistral.windows, std::vector<int64_t>(4, 4096));
  const Described qwen2 = config_of(kLlama, R"({"architectures": ["Qwen2ForCausalLM"]})");
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.output_bias || qwen2.normed_q);
  const Described qwen3 = config_of(kLlama, R"({"architectures": ["Qwen3ForCausalLM"]})");
  EXPECT_TRUE(qwen3.normed_q);
  EXPECT_FALSE(qwen3.qkv_bias);
  EXPECT_EQ(qwen3.head_dim, 128);
}

TEST(ConfigTest, BothSpellingsOfBaichuan7BAreOneFamily) {
  for (const char* name : {"BaiChuanForCausalLM", "BaichuanForCausalLM"}) {
    const Described config = config_of(
        kLlama, fmt::format(R"({{"architectures": ["{}"], "model_max_length": 256}})", name));
    EXPECT_EQ(config.architecture, name);
    EXPECT_EQ(config.kv_heads, config.heads);
    EXPECT_EQ(config.context, 256);
    EXPECT_FALSE(config.tie_word_embeddings || config.qkv_bias || config.output_bias);
  }
}

TEST(ConfigTest, InternLmHasBiasesByDefault) {
  const std::string family = R"({"architectures": ["InternLMForCausalLM"])";
  const Described silent =
      config_of(kLlama, family + R"(, "rotary": {"type": "dynamic", "base": 10000}})");
  EXPECT_TRUE(silent.qkv_bias && silent.output_bias);
  EXPECT_FALSE(silent.mlp_bias);
  const Described without = config_of(kLlama, family + R"(, "bias": false})");
  EXPECT_FALSE(without.qkv_bias || without.output_bias);
}

TEST(ConfigTest, Phi3RotatesWholeHeadsAndHasNoWindowByDefault) {
  const std::string family = R"({"architectures": ["Phi3ForCausalLM"])";
  const Described silent = config_of(kLlama, family + "}");
  EXPECT_EQ(silent.rotary.rotary_dim(), 8);
  EXPECT_FLOAT_EQ(silent.norm_eps, 1e-5f);
  EXPECT_EQ(silent.windows, std::vector<int64_t>(4, 0));
  const Described part = config_of(
      kLlama,
      family + R"(, "rope_parameters": {"partial_rotary_factor": 0.75}, "sliding_window": 9})");
  EXPECT_EQ(part.rotary.rotary_dim(), 6);
  EXPECT_EQ(part.rotary.head_dim(), 8);
  EXPECT_EQ(part.rope.inv_freq_size(), 3);
  EXPECT_EQ(part.windows, std::vector<int64_t>(4, 9));
}

TEST(ConfigTest, OnlySmolLm3LayersWithoutRopeMayHaveAWindow) {
  const std::string family = R"({"architectures": ["SmolLM3ForCausalLM"])";
  const Described silent = config_of(kLlama, family + "}");
  EXPECT_EQ(silent.rotates, (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(silent.kv_heads, 4);
  EXPECT_TRUE(silent.tie_word_embeddings);
  EXPECT_EQ(silent.windows, std::vector<int64_t>(4, 0));
  const Described windows =
      config_of(kLlama, family +
                            R"(, "use_sliding_window": true, "sliding_window": 9,
                                          "no_rope_layer_interval": 2})");
  EXPECT_EQ(windows.windows, (std::vector<int64_t>{0, 9, 0, 9}));
}

// Each family has its own rule for which layers have a sliding window.
TEST(ConfigTest, WindowsFollowTheFamily) {
  const std::string qwen = R"({"architectures": ["Qwen2ForCausalLM"], "sliding_window": 32, )";
  using Windows = std::vector<int64_t>;
  EXPECT_EQ(config_of(kLlama, qwen + R"("max_window_layers": 1})").windows, Windows(4, 0));
  EXPECT_EQ(
      config_of(kLlama, qwen + R"("use_sliding_window": true, "max_window_layers": 3})").windows,
      (Windows{0, 0, 0, 32}));
  EXPECT_EQ(config_of(kLlama, qwen + R"("use_sliding_window": true, "layer_types":
      ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]})")
                .windows,
            (Windows{32, 0, 32, 0}));
  const absl::StatusOr<ModelDescription> unsaid = describe_config(
      kLlama, R"({"architectures": ["Qwen2MoeForCausalLM"], "use_sliding_window": true})");
  EXPECT_NE(message_of(unsaid.status()).find("use_sliding_window: releases of transformers differ"),
            std::string::npos);
  const std::string moe = R"({"architectures": ["Qwen3MoeForCausalLM"], "sliding_window": 32, )";
  EXPECT_EQ(
      config_of(kLlama, moe + R"("use_sliding_window": true, "max_window_layers": 3})").windows,
      Windows(4, 32));
  EXPECT_EQ(config_of(kLlama, moe + R"("max_window_layers": 3})").windows, Windows(4, 0));
  EXPECT_EQ(
      config_of(kLlama, moe + R"("use_sliding_window": true, "model_type": "qwen3_vl_moe_text"})")
          .windows,
      Windows(4, 0));
  std::string text = std::string(kLlama).insert(1, R"("sliding_window": null,)");
  text.replace(text.find("Llama"), 5, "Mistral");
  const absl::StatusOr<ModelDescription> mistral = describe_config(text);
  ASSERT_TRUE(mistral.ok()) << message_of(mistral.status());
  EXPECT_EQ(described(*mistral).windows, Windows(4, 0));
}

TEST(ConfigTest, Gemma3CapsLogitsButNotScores) {
  const std::string caps = R"("attn_logit_softcapping": 5, "final_logit_softcapping": 7})";
  const Described second = config_of(kLlama, R"({"architectures": ["Gemma2ForCausalLM"], )" + caps);
  EXPECT_EQ(second.attention_cap, 5);
  EXPECT_EQ(second.logits_cap, 7);
  const Described third = config_of(kLlama, R"({"architectures": ["Gemma3ForCausalLM"], )" + caps);
  EXPECT_EQ(third.attention_cap, 0);
  EXPECT_EQ(third.logits_cap, 7);
}

TEST(ConfigTest, Gpt2MayDivideScoresByTheLayersNumber) {
  const auto scales = [](const std::string& patch) {
    const absl::StatusOr<ModelDescription> model = describe_config(kLlama, patch);
    EXPECT_TRUE(model.ok()) << message_of(model.status());
    std::vector<float> found;
    for (const Node& node : model->graph.nodes()) {
      if (node.op == Op::kAttention) found.push_back(node.attributes.attention().scale());
    }
    return found;
  };
  const std::string gpt2 = R"({"architectures": ["GPT2LMHeadModel"], "num_hidden_layers": 3)";
  const std::vector<float> same = scales(gpt2 + R"(, "reorder_and_upcast_attn": true})");
  ASSERT_EQ(same, std::vector<float>(3, same[0]));
  EXPECT_EQ(scales(gpt2 + R"(, "scale_attn_by_inverse_layer_idx": true})"),
            (std::vector<float>{same[0], same[0] / 2, same[0] / 3}));
}

TEST(ConfigTest, BothFormsOfAKeyMeanTheSame) {
  const Described old_form = config_of(kLlama, R"({"rope_theta": 5e5, "torch_dtype": "bfloat16",
      "rope_scaling": {"type": "linear", "factor": 4}})");
  const Described new_form = config_of(kLlama, R"({"dtype": "bfloat16", "rope_parameters":
      {"rope_type": "linear", "factor": 4.0, "rope_theta": 500000}})");
  EXPECT_EQ(old_form.dtype, DType::kBF16);
  EXPECT_EQ(new_form.dtype, DType::kBF16);
  EXPECT_EQ(old_form.rope.SerializeAsString(), new_form.rope.SerializeAsString());
}

TEST(ConfigTest, MaxContextMayShrinkAndGrowUpToTheRotaryScalingsLimit) {
  EXPECT_EQ(describe_config(kLlama, "{}", {}, 100)->config.context, 100);
  EXPECT_FALSE(describe_config(kLlama, "{}", {}, 257).ok());
  EXPECT_FALSE(describe_config(kLlama, "{}", {}, -1).ok());
  const char* dynamic = R"({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}})";
  const absl::StatusOr<ModelDescription> model = describe_config(kLlama, dynamic, {}, 512);
  ASSERT_TRUE(model.ok()) << message_of(model.status());
  EXPECT_EQ(model->config.context, 512);
  EXPECT_EQ(described(*model).rope.dynamic_length(), 256);
  EXPECT_FALSE(describe_config(kLlama, dynamic, {}, 513).ok());
}

TEST(ConfigTest, TokenIdsAreOneOrAList) {
  const Described config = config_of(kLlama, R"({"bos_token_id": 1, "eos_token_id": [2, 7]})");
  EXPECT_EQ(config.bos_token_ids, std::vector<int64_t>{1});
  EXPECT_EQ(config.eos_token_ids, (std::vector<int64_t>{2, 7}));
}

}  // namespace
}  // namespace lockstep
