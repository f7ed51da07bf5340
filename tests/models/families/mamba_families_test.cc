// SPDX-License-Identifier: Apache-2.0
// Families with Mamba-2: layers, sizes, and what is refused; also numbers that only Python's JSON
// has.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "models/config/python_json.h"
#include "tests/models/described_config.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep {
namespace {

// Granite 4.0 H Tiny as published, with fewer layers.
constexpr char kGranite4[] = R"({"architectures": ["GraniteMoeHybridForCausalLM"],
  "attention_bias": false, "attention_dropout": 0.0, "attention_multiplier": 0.0078125,
  "bos_token_id": 100257, "embedding_multiplier": 12, "eos_token_id": 100257, "hidden_act": "silu",
  "hidden_size": 1536, "init_method": "mup", "initializer_range": 0.1, "intermediate_size": 512,
  "layer_types": ["mamba", "mamba", "attention"], "logits_scaling": 6, "mamba_chunk_size": 256,
  "mamba_conv_bias": true, "mamba_d_conv": 4, "mamba_d_head": 64, "mamba_d_state": 128,
  "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 48, "mamba_proj_bias": false,
  "max_position_embeddings": 131072, "model_type": "granitemoehybrid",
  "normalization_function": "rmsnorm", "num_attention_heads": 12, "num_experts_per_tok": 6,
  "num_hidden_layers": 3, "num_key_value_heads": 4, "num_local_experts": 64,
  "output_router_logits": false, "pad_token_id": 100256, "position_embedding_type": "nope",
  "residual_multiplier": 0.22, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000,
  "router_aux_loss_coef": 0.0, "shared_intermediate_size": 1024, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 100352})";

// Nemotron Nano 9B v2 as published, with fewer layers.
constexpr char kNemotron[] = R"({"architectures": ["NemotronHForCausalLM"],
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1, "chunk_size": 128,
  "conv_kernel": 4, "eos_token_id": 12, "head_dim": 128, "hidden_dropout": 0.0,
  "hidden_size": 4480, "hybrid_override_pattern": "M-M*-", "initializer_range": 0.02,
  "intermediate_size": 15680, "layer_norm_epsilon": 1e-05, "mamba_head_dim": 80,
  "mamba_hidden_act": "silu", "mamba_num_heads": 128, "mamba_proj_bias": false,
  "max_position_embeddings": 131072, "mlp_bias": false, "mlp_hidden_act": "relu2",
  "model_type": "nemotron_h", "n_groups": 8, "num_attention_heads": 40, "num_hidden_layers": 5,
  "num_key_value_heads": 8, "num_logits_to_keep": 1, "pad_token_id": 0,
  "rescale_prenorm_residual": true, "residual_in_fp32": false, "rms_norm_eps": 1e-05,
  "sliding_window": null, "ssm_state_size": 128, "tie_word_embeddings": false,
  "time_step_floor": 0.0001, "time_step_max": 0.1, "time_step_min": 0.001,
  "time_step_rank": 256, "torch_dtype": "bfloat16", "use_bias": false, "use_cache": true,
  "use_conv_bias": true, "use_mamba_kernels": true, "vocab_size": 131072})";

TEST(Granite4Test, ThePublishedConfigIsRead) {
  const Described config = config_of(kGranite4);
  EXPECT_EQ(config.kinds, "MM*");
  EXPECT_EQ(config.recurrence.heads(), 48);
  EXPECT_EQ(config.recurrence.v_dim(), 64);
  EXPECT_EQ(config.rotates, std::vector<bool>(3, false));
  EXPECT_EQ(config.experts.size, 512);
  EXPECT_EQ(config.intermediate_size, 1024);
}

TEST(Granite4Test, AModelMayHaveNoExpertsAndHaveRope) {
  const Described config =
      config_of(kGranite4, R"({"num_local_experts": 0, "num_experts_per_tok": 0,
      "position_embedding_type": "rope", "mamba_d_head": "auto"})");
  EXPECT_EQ(config.experts.count, 0);
  EXPECT_EQ(config.rotates, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(config_of(kGranite4, R"({"layer_types": null})").kinds, "MMM");
  EXPECT_EQ(config.recurrence.v_dim(), 64);
}

TEST(NemotronHTest, ThePublishedConfigIsRead) {
  const Described config = config_of(kNemotron);
  EXPECT_EQ(config.kinds, "M-M*-");
  EXPECT_EQ(config.recurrence.key_heads(), 8);
  EXPECT_EQ(config.activation, Function::kReluSquared);
  const Described words = config_of(kNemotron, R"({"hybrid_override_pattern": null,
      "layers_block_type": ["mamba", "moe", "linear_attention", "full_attention", "mlp"]})");
  EXPECT_EQ(words.kinds, "MEM*-");
}

TEST(MambaTest, OtherModelsAreRefused) {
  expect_refused(kGranite4, R"({"mamba_proj_bias": true})", "mamba_proj_bias: true");
  expect_refused(kGranite4, R"({"mamba_n_groups": 5})", "mamba_n_groups: must be a divisor");
  expect_refused(kGranite4, R"({"mamba_d_conv": 1})",
                 "mamba_d_conv: must be an integer from 2 to 16, found 1");
  expect_refused(kGranite4, R"({"mamba_d_head": 100000})", "mamba_d_head: must be");
  expect_refused(kGranite4, R"({"time_step_limit": [0.1, 2]})", "time_step_limit: ");
  expect_refused(kGranite4, R"({"num_local_experts": -1})",
                 "num_local_experts: must be an integer from 0 to");
  expect_refused(kNemotron, R"({"hybrid_override_pattern": "M-M*"})",
                 "hybrid_override_pattern: must be 5 letters M, *, - or E, found M-M*");
  expect_refused(kNemotron, R"({"hybrid_override_pattern": "M-M*x"})", "hybrid_override_pattern");
  expect_refused(kNemotron, R"({"layers_block_type": [1, 2, 3, 4, 5]})", "hybrid_override_pattern");
  expect_refused(kNemotron, R"({"moe_latent_size": 64})", "moe_latent_size: an integer (64)");
}

TEST(PythonJsonTest, NumbersThatJsonLacksBecomeStrings) {
  EXPECT_EQ(without_python_numbers(R"({"a": [0.0, Infinity], "b": -Infinity, "c": NaN})"),
            R"({"a": [0.0, "Infinity"], "b": "-Infinity", "c": "NaN"})");
  const std::string kept = R"({"a": "to Infinity", "b\"NaN": 1, "c\\": "NaN"})";
  EXPECT_EQ(without_python_numbers(kept), kept);
  EXPECT_EQ(without_python_numbers("\"\\"), "\"\\");
}

TEST(PythonJsonTest, NumbersThatTransformersWritesAsObjectsAreRead) {
  const absl::StatusOr<Json> json = parse_python_json(
      R"({"a": [{"__float__": "Infinity"}, -Infinity], "b": {"__float__": "NaN"},
          "c": {"__float__": "other"}, "d": {"__float__": "NaN", "e": 1}})",
      "text");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(*json, Json::parse(R"({"a": ["Infinity", "-Infinity"], "b": "NaN",
      "c": {"__float__": "other"}, "d": {"__float__": "NaN", "e": 1}})"));
}

TEST(PythonJsonTest, AConfigMayHaveNumbersThatJsonLacks) {
  for (const char* infinity : {"Infinity", R"({"__float__": "Infinity"})"}) {
    std::string text = Json::parse(kGranite4).dump();
    text.insert(1, fmt::format(R"("time_step_limit": [0.0, {}], )", infinity));
    const TempFolder folder;
    std::ofstream(folder.path() / "config.json") << text;
    const absl::StatusOr<ModelDescription> model = describe_model(folder.path(), {}, 0);
    EXPECT_TRUE(model.ok()) << model.status();
  }
}

}  // namespace
}  // namespace lockstep
