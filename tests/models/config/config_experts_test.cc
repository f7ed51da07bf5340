// SPDX-License-Identifier: Apache-2.0
// The keys of config.json for a mixture of experts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/models/described_config.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using Layers = std::vector<bool>;

// A config with four layers of the family.
std::string of_family(const std::string& name) {
  return Json{{"architectures", Json::array({name + "ForCausalLM"})},
              {"vocab_size", 320},
              {"hidden_size", 64},
              {"intermediate_size", 160},
              {"num_hidden_layers", 4},
              {"num_attention_heads", 4},
              {"num_key_value_heads", 4},
              {"head_dim", 16},
              {"max_position_embeddings", 128}}
      .dump();
}

const std::string kQwen3 = of_family("Qwen3Moe");
const std::string kGlm4 = of_family("Glm4Moe");

TEST(ConfigExpertsTest, AMissingKeyHasTheFamilysDefault) {
  const Described mixtral = config_of(of_family("Mixtral"));
  EXPECT_EQ(mixtral.experts.count, 8);
  EXPECT_EQ(mixtral.experts.chosen, 2);
  EXPECT_EQ(mixtral.experts.size, 160);
  EXPECT_TRUE(mixtral.route.renormalised());
  const Described qwen2 = config_of(of_family("Qwen2Moe"));
  EXPECT_EQ(qwen2.experts.count, 60);
  EXPECT_EQ(qwen2.experts.chosen, 4);
  EXPECT_EQ(qwen2.experts.size, 1408);
  EXPECT_FALSE(qwen2.route.renormalised());
  const std::string shared = "model.layers.0.mlp.shared_expert.up_proj.weight";
  EXPECT_EQ(tensor_of(shared, of_family("Qwen2Moe")), (std::vector<int64_t>{5632, 64}));
  const Described qwen3 = config_of(kQwen3, R"({"norm_topk_prob": true})");
  EXPECT_EQ(qwen3.experts.count, 128);
  EXPECT_EQ(qwen3.experts.chosen, 8);
  EXPECT_EQ(qwen3.experts.size, 768);
  EXPECT_TRUE(tensor_of(shared, kQwen3).empty());
  EXPECT_TRUE(qwen3.route.renormalised());
  EXPECT_EQ(config_of(of_family("Llama")).experts.count, 0);
}

TEST(ConfigExpertsTest, DenseLayersAreGivenByNumberOrByType) {
  const auto layers = [](const char* patch) { return config_of(kGlm4, patch).has_router; };
  EXPECT_EQ(layers("{}"), (Layers{false, true, true, true}));
  EXPECT_EQ(layers(R"({"first_k_dense_replace": 3})"), (Layers{false, false, false, true}));
  EXPECT_EQ(layers(R"({"mlp_layer_types": ["dense", "sparse", "dense", "sparse"]})"),
            (Layers{false, true, false, true}));
  for (const char* bad : {R"(["dense"])", R"("dense")", R"(["dense", "sparse", "dense", "moe"])"}) {
    expect_refused(kGlm4, fmt::format(R"({{"mlp_layer_types": {}}})", bad), "mlp_layer_types");
  }
}

TEST(ConfigExpertsTest, DenseLayersAreGivenByStepAndByName) {
  const auto layers = [](const char* patch) { return config_of(kQwen3, patch).has_router; };
  EXPECT_EQ(layers("{}"), Layers(4, true));
  EXPECT_EQ(layers(R"({"decoder_sparse_step": 2})"), (Layers{false, true, false, true}));
  EXPECT_EQ(layers(R"({"decoder_sparse_step": 2, "mlp_only_layers": [1, 0]})"),
            (Layers{false, false, false, true}));
  EXPECT_EQ(layers(R"({"mlp_only_layers": null})"), Layers(4, true));
}

TEST(ConfigExpertsTest, DenseLayersAndGroupsAndSharedExpertsAreRead) {
  const std::string shared = "model.layers.3.mlp.shared_experts.up_proj.weight";
  const Described plain = config_of(kGlm4);
  EXPECT_EQ(plain.experts.count, 128);
  EXPECT_EQ(plain.experts.chosen, 8);
  EXPECT_EQ(tensor_of(shared, kGlm4)[0], 1408);
  EXPECT_TRUE(plain.route.renormalised());
  const std::string patch = R"({"n_routed_experts": 8, "n_group": 4,
      "topk_group": 2, "num_experts_per_tok": 3, "n_shared_experts": 2, "moe_intermediate_size": 10,
      "first_k_dense_replace": 0, "routed_scaling_factor": 2.5, "norm_topk_prob": false})";
  const Described grouped = config_of(kGlm4, patch);
  EXPECT_EQ(grouped.route.groups(), 4);
  EXPECT_EQ(grouped.route.chosen_groups(), 2);
  EXPECT_EQ(tensor_of(shared, kGlm4, patch)[0], 20);
  EXPECT_EQ(grouped.route.scale(), 2.5f);
  EXPECT_FALSE(grouped.route.renormalised());
  EXPECT_EQ(grouped.has_router, Layers(4, true));
}

TEST(ConfigExpertsTest, AKeyIsKnownOnlyInFamiliesThatReadIt) {
  for (const auto& [family, key, value] : {std::tuple{"Mixtral", "mlp_only_layers", "[1]"},
                                           {"Mixtral", "decoder_sparse_step", "2"},
                                           {"Qwen3Moe", "shared_expert_intermediate_size", "8"},
                                           {"Llama", "num_experts_per_tok", "2"}}) {
    expect_refused(of_family(family), fmt::format(R"({{"{}": {}}})", key, value),
                   fmt::format("{}: unknown here", key));
  }
}

struct Wrong {
  const char* json;
  const char* says;
};

TEST(ConfigExpertsTest, AWrongKeyIsNamed) {
  for (const Wrong& wrong : {
           Wrong{R"({"num_experts": 0})", "num_experts: must be an integer from 1 to 1024, found"},
           Wrong{R"({"num_experts": 2000})", "num_experts: must be an integer from 1 to 1024"},
           Wrong{R"({"num_experts": 4, "num_experts_per_tok": 5})",
                 "num_experts_per_tok: must be an integer from 1 to 4, found 5"},
           Wrong{R"({"moe_intermediate_size": -1})", "moe_intermediate_size: must be an integer"},
           Wrong{R"({"norm_topk_prob": 1})", "norm_topk_prob: must be true or false"},
           Wrong{R"({"decoder_sparse_step": 0})", "decoder_sparse_step: must be an integer from 1"},
           Wrong{R"({"mlp_only_layers": 3})", "mlp_only_layers: must be a list of layers, found"},
           Wrong{R"({"mlp_only_layers": [4]})", "mlp_only_layers: must be layers from 0 to 3"},
           Wrong{R"({"mlp_only_layers": ["a"]})", "mlp_only_layers: must be layers from 0 to 3"},
       }) {
    expect_refused(kQwen3, wrong.json, wrong.says);
  }
}

TEST(ConfigExpertsTest, GroupsWithTooFewExpertsAreNamed) {
  for (const Wrong& wrong : {
           Wrong{R"({"n_group": 3})",
                 "n_group: must split the 128 experts into groups of two or more, found 3"},
           Wrong{R"({"n_group": 128})", "groups of two or more, found 128"},
           Wrong{R"({"n_group": 4, "topk_group": 5})",
                 "topk_group: must be an integer from 1 to 4"},
           Wrong{R"({"n_group": 64, "topk_group": 3})",
                 "topk_group: must choose groups with at least 8 experts in total, found 6"},
           Wrong{R"({"routed_scaling_factor": 0})", "routed_scaling_factor: must be a number from"},
           Wrong{R"({"n_shared_experts": 0})", "n_shared_experts: must be an integer from 1"},
       }) {
    expect_refused(kGlm4, wrong.json, wrong.says);
  }
}

}  // namespace
}  // namespace lockstep
