// SPDX-License-Identifier: Apache-2.0
// Keys of a config.json that have no effect. No rule may accept a key that changes the results.
#include "models/config/key_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "models/architecture.h"
#include "tests/models/described_config.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr char kLlama[] = R"({
  "architectures": ["LlamaForCausalLM"], "vocab_size": 320, "hidden_size": 64,
  "intermediate_size": 124, "num_hidden_layers": 2, "num_attention_heads": 8,
  "num_key_value_heads": 4, "head_dim": 8, "max_position_embeddings": 256})";

bool reads(const std::string& family, const std::string& key) {
  for (const Architecture& known : architectures()) {
    if (known.name == family && keys_of(known).contains(key)) return true;
  }
  return false;
}

// Describes a small Llama's config under another architecture, with one more key.
absl::StatusOr<ModelDescription> of_family(const std::string& name, const std::string& key,
                                           const Json& value) {
  Json json = Json::parse(kLlama);
  json["architectures"] = Json::array({name});
  for (const char* size : {"q_lora_rank", "n_routed_experts", "num_experts_per_tok"}) {
    if (reads(name, size)) json[size] = 8;
  }
  json[key] = value;
  return describe_config(json.dump());
}

absl::StatusOr<ModelDescription> with_key(const std::string& key, const Json& value) {
  Json json = Json::parse(kLlama);
  json[key] = value;
  return describe_config(json.dump());
}

struct Member {
  const char* key;
  const char* value;
};

TEST(KeyRulesTest, KeysWithoutAnEffectAreAcceptedInEveryFamily) {
  for (const auto& [key, value] : {
           Member{"_from_model_config", "true"},
           Member{"_num_labels", "2"},
           Member{"_name_or_path", "\"x/y\""},
           Member{"transformers.js_config", R"({"dtype": "q4"})"},
           Member{"is_llama_config", "true"},
           Member{"for_llm_compressor", "true"},
           Member{"custom_pipelines", R"({"a": {"impl": "b"}})"},
           Member{"activation_dropout", "0.1"},
           Member{"attn_dropout_prob", "0.1"},
           Member{"resid_pdrop", "0.1"},
           Member{"eoa_token_id", "17"},
           Member{"mask_token_id", "17"},
           Member{"image_token_index", "17"},
           Member{"mtp_num_hidden_layers", "1"},
           Member{"num_nextn_predict_layers", "1"},
           Member{"index_share_for_mtp_iteration", "true"},
           Member{"vision_config", R"({"hidden_size": 8})"},
           Member{"audio_config", R"({"hidden_size": 8})"},
           Member{"router_aux_loss_coef", "0.01"},
           Member{"z_loss_coefficient", "0.01"},
           Member{"n_special", "0"},
           Member{"shared_expert_intermediate_size", "0"},
           Member{"mlp_only_layers", "[]"},
           Member{"anything_at_all", "{}"},
           Member{"anything_at_all", "null"},
           Member{"predict_special_tokens", "true"},
           Member{"output_past", "true"},
           Member{"mamba_ssm_dtype", "\"float32\""},
           Member{"is_causal", "true"},
           Member{"non_causal", "false"},
           Member{"use_bfloat16", "true"},
           Member{"is_composition", "true"},
           Member{"use_sliding_window", "false"},
       }) {
    const absl::StatusOr<ModelDescription> model = with_key(key, Json::parse(value));
    EXPECT_TRUE(model.ok()) << key << ": " << model.status();
  }
}

TEST(KeyRulesTest, AValueThatMeansAnotherModelIsRefusedByName) {
  for (const auto& [key, value] : {
           Member{"is_causal", "false"},
           Member{"use_causal_mask", "false"},
           Member{"causal_mask", "false"},
           Member{"causal_attention", "false"},
           Member{"is_non_causal", "true"},
           Member{"_remove_final_layer_norm", "true"},
           Member{"scale_attn_weights", "false"},
           Member{"scale_attn_by_inverse_layer_idx", "true"},
           Member{"mamba_ssm_dtype", "\"bfloat16\""},
           Member{"moe_router_dtype", "\"bfloat16\""},
       }) {
    const absl::StatusOr<ModelDescription> model = with_key(key, Json::parse(value));
    ASSERT_FALSE(model.ok()) << key;
    EXPECT_THAT(message_of(model.status()), HasSubstr(std::string(key) + ": ")) << key;
    EXPECT_THAT(message_of(model.status()), HasSubstr(" is not supported; supported: ")) << key;
  }
}

TEST(KeyRulesTest, AFalseThatChangesTheModelIsRefusedAsUnknown) {
  for (const char* key :
       {"use_rope", "rotary", "use_rotary_embeddings", "do_layer_norm_before",
        "layer_norm_elementwise_affine", "use_gated_mlp", "norm_first", "rope", "use_rmsnorm",
        "rms_norm", "gated_mlp", "glu", "swiglu", "normalize_before", "use_prenorm"}) {
    const absl::StatusOr<ModelDescription> model = with_key(key, false);
    ASSERT_FALSE(model.ok()) << key;
    EXPECT_THAT(message_of(model.status()), HasSubstr(std::string(key) + ": unknown here"));
  }
}

// Every family reads the keys for biases and for parallel attention and MLP, even a family whose
// models always have these parts.
TEST(KeyRulesTest, AFalseThatWouldRemoveAPartIsRefused) {
  for (const auto& [family, key] : {std::pair{"GPTNeoXForCausalLM", "mlp_bias"},
                                    {"Qwen2ForCausalLM", "use_qkv_bias"},
                                    {"GPT2LMHeadModel", "attention_bias"},
                                    {"PhiForCausalLM", "use_parallel_residual"}}) {
    EXPECT_THAT(message_of(of_family(family, key, false).status()),
                HasSubstr(fmt::format("{}: false is not supported; supported: true", key)));
    EXPECT_TRUE(of_family(family, key, true).ok()) << key;
    EXPECT_TRUE(of_family("LlamaForCausalLM", key, false).ok()) << key;
  }
}

TEST(KeyRulesTest, AnUnknownKeyWithANumberThatMayMatterIsRefused) {
  for (const auto& [key, value] :
       {Member{"n_special", "3"}, Member{"num_memory_tokens", "1"},
        Member{"shared_expert_intermediate_size", "512"}, Member{"mlp_only_layers", "[0]"},
        Member{"index_topk", "64"}, Member{"indexer_heads", "2"}, Member{"logit_scale", "0.5"},
        Member{"logit_scale", "0"}, Member{"_sliding_window", "16"},
        Member{"_sliding_window_pattern", "4"}}) {
    const absl::StatusOr<ModelDescription> model = with_key(key, Json::parse(value));
    ASSERT_FALSE(model.ok()) << key;
    EXPECT_THAT(message_of(model.status()), HasSubstr(std::string(key) + ": unknown here"));
  }
}

TEST(KeyRulesTest, TheFamilyDecidesWhichValuesAreHarmless) {
  const auto harmless = [](const char* family, const char* key, const Json& value) {
    return of_family(family, key, value).ok();
  };
  EXPECT_TRUE(harmless("Qwen3MoeForCausalLM", "use_qk_norm", true));
  EXPECT_FALSE(harmless("Qwen3MoeForCausalLM", "use_qk_norm", false));
  EXPECT_FALSE(harmless("LlamaForCausalLM", "use_qk_norm", true));
  EXPECT_TRUE(harmless("LlamaForCausalLM", "use_qk_norm", false));
  EXPECT_TRUE(harmless("Dots1ForCausalLM", "moe_layer_freq", 1));
  EXPECT_FALSE(harmless("Dots1ForCausalLM", "moe_layer_freq", 2));
  EXPECT_FALSE(harmless("LlamaForCausalLM", "moe_layer_freq", 1));
  EXPECT_TRUE(harmless("Qwen3_5ForCausalLM", "output_gate_type", "swish"));
  EXPECT_FALSE(harmless("Qwen3_5ForCausalLM", "output_gate_type", "sigmoid"));
  EXPECT_FALSE(harmless("LlamaForCausalLM", "output_gate_type", "swish"));
  EXPECT_TRUE(harmless("GlmMoeDsaForCausalLM", "index_topk_freq", 4));
  EXPECT_FALSE(harmless("DeepseekV3ForCausalLM", "index_topk_freq", 4));
  EXPECT_TRUE(harmless("GPT2LMHeadModel", "use_rmsnorm", false));
  EXPECT_TRUE(harmless("GPT2LMHeadModel", "norm_type", "layernorm"));
  EXPECT_FALSE(harmless("LlamaForCausalLM", "norm_type", "layernorm"));
  EXPECT_TRUE(harmless("MixtralForCausalLM", "norm_topk_prob", true));
  EXPECT_FALSE(harmless("MixtralForCausalLM", "norm_topk_prob", false));
}

// The keys in `harmless` have no effect in any family, so families name them only to ignore them.
TEST(KeyRulesTest, NoRuleAcceptsAKeyThatAFamilyReads) {
  const std::set<std::string> harmless = {"model_max_length",
                                          "bos_token_id",
                                          "eos_token_id",
                                          "pad_token_id",
                                          "init_method",
                                          "router_aux_loss_coef",
                                          "block_mlp_init_scale",
                                          "block_out_init_scale",
                                          "z_loss_coefficient",
                                          "output_router_logits",
                                          "block_use_xavier_init",
                                          "conv_use_xavier_init",
                                          "z_loss_weight",
                                          "mask_token_id",
                                          "gmask_token_id",
                                          "eod_token_id",
                                          "bias_dropout_fusion",
                                          "scale_attn_weights",
                                          "attention_softmax_in_fp32"};
  int asked = 0;
  for (const std::string& key : keys_of_all()) {
    if (reads("LlamaForCausalLM", key) || harmless.contains(key)) continue;
    ++asked;
    for (const Json& value : {Json(7), Json(0.5), Json("x"), Json(true), Json({1, 2})}) {
      const absl::StatusOr<bool> found = is_harmless(key, value);
      EXPECT_FALSE(found.ok() && *found) << key << " " << value;
    }
  }
  EXPECT_GT(asked, 100);
}

TEST(KeyRulesTest, RandomKeysAreRefusedWithTheFlagThatIgnoresThem) {
  std::mt19937 random(31);
  const char* words[] = {"attn", "scale", "window", "gate",  "router", "bias",  "heads",
                         "dim",  "norm",  "alpha",  "theta", "cap",    "shift", "qk"};
  const Json values[] = {3, 0.25, true, "other", Json::array({1, 2}), {{"a", 1}}};
  for (int i = 0; i < 500; ++i) {
    std::string key = words[random() % std::size(words)];
    for (int more = 0; more < 2; ++more) {
      key += "_";
      key += words[random() % std::size(words)];
    }
    Json json = Json::parse(kLlama);
    if (json.contains(key)) continue;
    json[key] = values[random() % std::size(values)];
    const absl::StatusOr<ModelDescription> model = describe_config(json.dump());
    ASSERT_FALSE(model.ok()) << json[key] << key;
    const std::string flag = "--ignore-config " + key;
    EXPECT_THAT(message_of(model.status()), HasSubstr(key + ": unknown here"));
    EXPECT_THAT(message_of(model.status()), HasSubstr(flag));
  }
}

}  // namespace
}  // namespace lockstep
