// SPDX-License-Identifier: Apache-2.0
#include "models/config_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/status.h"
#include "models/models.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

FamilyExperts family_of(std::string_view architecture) {
  for (const Architecture& known : architectures()) {
    if (known.name == architecture && known.is == nullptr) return known.family.experts;
  }
  ADD_FAILURE() << architecture;
  return {};
}

absl::StatusOr<ExpertConfig> read(std::string_view architecture, const std::string& json) {
  return read_experts(Json::parse(json), family_of(architecture), 4, 160);
}

TEST(ConfigExpertsTest, AMissingKeyMeansWhatTheFamilyTakes) {
  const ExpertConfig mixtral = *read("MixtralForCausalLM", "{}");
  EXPECT_EQ(mixtral.count, 8);
  EXPECT_EQ(mixtral.chosen, 2);
  EXPECT_EQ(mixtral.size, 160);
  EXPECT_EQ(mixtral.shared_size, 0);
  EXPECT_TRUE(mixtral.renormalised);
  const ExpertConfig qwen2 = *read("Qwen2MoeForCausalLM", "{}");
  EXPECT_EQ(qwen2.count, 60);
  EXPECT_EQ(qwen2.chosen, 4);
  EXPECT_EQ(qwen2.size, 1408);
  EXPECT_EQ(qwen2.shared_size, 5632);
  EXPECT_FALSE(qwen2.renormalised);
  const ExpertConfig qwen3 = *read("Qwen3MoeForCausalLM", R"({"norm_topk_prob": true})");
  EXPECT_EQ(qwen3.count, 128);
  EXPECT_EQ(qwen3.chosen, 8);
  EXPECT_EQ(qwen3.size, 768);
  EXPECT_EQ(qwen3.shared_size, 0);
  EXPECT_TRUE(qwen3.renormalised);
  EXPECT_EQ(read("LlamaForCausalLM", "{}")->count, 0);
}

TEST(ConfigExpertsTest, LayersAreDenseByNumberOrByType) {
  const auto layers = [](const std::string& json) {
    return read("Glm4MoeForCausalLM", json)->in_layer;
  };
  EXPECT_EQ(layers("{}"), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(layers(R"({"first_k_dense_replace": 3})"),
            (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(layers(R"({"mlp_layer_types": ["dense", "sparse", "dense", "sparse"]})"),
            (std::vector<bool>{false, true, false, true}));
  for (const char* bad : {R"(["dense"])", R"("dense")", R"(["dense", "sparse", "dense", "moe"])"}) {
    const auto experts =
        read("Glm4MoeForCausalLM", fmt::format(R"({{"mlp_layer_types": {}}})", bad));
    ASSERT_FALSE(experts.ok()) << bad;
    EXPECT_THAT(message_of(experts.status()), HasSubstr("mlp_layer_types"));
  }
}

TEST(ConfigExpertsTest, LayersAreDenseByStepAndByName) {
  const auto layers = [](const std::string& json) {
    return read("Qwen3MoeForCausalLM", json)->in_layer;
  };
  EXPECT_EQ(layers("{}"), (std::vector<bool>{true, true, true, true}));
  EXPECT_EQ(layers(R"({"decoder_sparse_step": 2})"), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(layers(R"({"decoder_sparse_step": 2, "mlp_only_layers": [1, 0]})"),
            (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(layers(R"({"mlp_only_layers": null})"), (std::vector<bool>{true, true, true, true}));
}

TEST(ConfigExpertsTest, GroupsSharedExpertsAndDenseLayersAreRead) {
  const ExpertConfig plain = *read("Glm4MoeForCausalLM", "{}");
  EXPECT_EQ(plain.count, 128);
  EXPECT_EQ(plain.chosen, 8);
  EXPECT_EQ(plain.shared_size, 1408);
  EXPECT_TRUE(plain.renormalised);
  EXPECT_EQ(plain.in_layer, (std::vector<bool>{false, true, true, true}));
  const ExpertConfig grouped = *read("Glm4MoeForCausalLM", R"({"n_routed_experts": 8, "n_group": 4,
      "topk_group": 2, "num_experts_per_tok": 3, "n_shared_experts": 2, "moe_intermediate_size": 10,
      "first_k_dense_replace": 0, "routed_scaling_factor": 2.5, "norm_topk_prob": false})");
  EXPECT_EQ(grouped.groups, 4);
  EXPECT_EQ(grouped.chosen_groups, 2);
  EXPECT_EQ(grouped.shared_size, 20);
  EXPECT_EQ(grouped.scale, 2.5f);
  EXPECT_FALSE(grouped.renormalised);
  EXPECT_EQ(grouped.in_layer, std::vector<bool>(4, true));
}

TEST(ConfigExpertsTest, AKeyBelongsToTheFamiliesThatReadIt) {
  EXPECT_TRUE(reads_expert_key(family_of("MixtralForCausalLM"), "num_local_experts"));
  EXPECT_FALSE(reads_expert_key(family_of("MixtralForCausalLM"), "num_experts"));
  EXPECT_FALSE(reads_expert_key(family_of("MixtralForCausalLM"), "norm_topk_prob"));
  EXPECT_FALSE(reads_expert_key(family_of("MixtralForCausalLM"), "mlp_only_layers"));
  EXPECT_TRUE(reads_expert_key(family_of("Qwen3MoeForCausalLM"), "mlp_only_layers"));
  EXPECT_FALSE(
      reads_expert_key(family_of("Qwen3MoeForCausalLM"), "shared_expert_intermediate_size"));
  EXPECT_FALSE(reads_expert_key(family_of("LlamaForCausalLM"), "num_experts_per_tok"));
}

struct Wrong {
  const char* json;
  const char* says;
};

TEST(ConfigExpertsTest, WhatIsWrongIsNamed) {
  for (const Wrong& wrong : {
           Wrong{R"({"num_experts": 0})", "num_experts: wanted an integer from 1 to 1024, found 0"},
           Wrong{R"({"num_experts": 2000})", "num_experts: wanted an integer from 1 to 1024"},
           Wrong{R"({"num_experts": 4, "num_experts_per_tok": 5})",
                 "num_experts_per_tok: wanted an integer from 1 to 4, found 5"},
           Wrong{R"({"moe_intermediate_size": -1})", "moe_intermediate_size: wanted an integer"},
           Wrong{R"({"norm_topk_prob": 1})", "norm_topk_prob: wanted true or false"},
           Wrong{R"({"decoder_sparse_step": 0})", "decoder_sparse_step: wanted an integer from 1"},
           Wrong{R"({"mlp_only_layers": 3})", "mlp_only_layers: wanted a list of layers, found an"},
           Wrong{R"({"mlp_only_layers": [4]})", "mlp_only_layers: wanted layers from 0 to 3"},
           Wrong{R"({"mlp_only_layers": ["a"]})", "mlp_only_layers: wanted layers from 0 to 3"},
       }) {
    const auto experts = read("Qwen3MoeForCausalLM", wrong.json);
    EXPECT_THAT(message_of(experts.status()), HasSubstr(wrong.says)) << wrong.json;
  }
}

TEST(ConfigExpertsTest, GroupsThatCannotGiveTheExpertsAreNamed) {
  for (const Wrong& wrong : {
           Wrong{R"({"n_group": 3})", "n_group: wanted groups of two or more of 128 experts each"},
           Wrong{R"({"n_group": 128})", "n_group: wanted groups of two or more"},
           Wrong{R"({"n_group": 4, "topk_group": 5})", "topk_group: wanted an integer from 1 to 4"},
           Wrong{R"({"n_group": 64, "topk_group": 3})",
                 "topk_group: wanted groups of at least 8 experts together, found 6"},
           Wrong{R"({"routed_scaling_factor": 0})", "routed_scaling_factor: wanted a number from"},
           Wrong{R"({"n_shared_experts": 0})", "n_shared_experts: wanted an integer from 1"},
       }) {
    const auto experts = read("Glm4MoeForCausalLM", wrong.json);
    EXPECT_THAT(message_of(experts.status()), HasSubstr(wrong.says)) << wrong.json;
  }
}

}  // namespace
}  // namespace lockstep
