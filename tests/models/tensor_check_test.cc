// SPDX-License-Identifier: Apache-2.0
#include "models/tensor_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/models/described_config.h"
#include "tests/models/spelled_tensors.h"
#include "tests/support/files/test_data.h"
#include "tests/support/goldens/random_tensors.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr char kModel[] = R"({"architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 64,
  "hidden_size": 32, "intermediate_size": 48, "moe_intermediate_size": 24, "num_hidden_layers": 1,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_experts": 4,
  "num_experts_per_tok": 2, "norm_topk_prob": true, "max_position_embeddings": 64})";

class TensorCheckTest : public testing::Test {
 protected:
  absl::Status check(const naive::Tensors& tensors) {
    write_checkpoint(folder_.path(), tensors);
    return check_tensors(*Checkpoint::open(folder_.path()), graph_);
  }
  // The report for a checkpoint with these tensors in addition.
  std::string unread(const std::vector<std::string>& names) {
    naive::Tensors tensors = tensors_;
    for (const std::string& name : names) tensors[name] = {.shape = {2}, .data = {1, 2}};
    write_checkpoint(folder_.path(), tensors);
    return unread_tensors(*Checkpoint::open(folder_.path()), graph_);
  }

  const TempFolder folder_;
  const Graph graph_ = describe_config(kModel)->graph;
  const naive::Tensors tensors_ = random_tensors(graph_, 7);
};

TEST_F(TensorCheckTest, MissingTensorsAreCountedAndTheNearestIsNamedWithItsShape) {
  EXPECT_TRUE(check(tensors_).ok());
  naive::Tensors other = stacked(tensors_);
  const size_t wanted = tensors_.size();
  EXPECT_EQ(
      message_of(check(other)),
      "12 of " + std::to_string(wanted) + " tensors are missing from the checkpoint " +
          folder_.path().string() +
          ": model.layers.0.mlp.experts.0.gate_proj.weight, "
          "model.layers.0.mlp.experts.1.gate_proj.weight, "
          "model.layers.0.mlp.experts.2.gate_proj.weight and 9 more; nearest to the first is "
          "model.layers.0.mlp.experts.gate_up_proj [4, 48, 32]; does its config.json belong to "
          "these weights?");
}

TEST_F(TensorCheckTest, TheNearestNameMayHaveAnotherPrefix) {
  const std::string message =
      message_of(check(renamed(tensors_, "model.", "language_model.model.")));
  EXPECT_THAT(message, HasSubstr(": model.embed_tokens.weight, "));
  EXPECT_THAT(message, HasSubstr("is language_model.model.embed_tokens.weight [64, 32]; does"));
}

TEST_F(TensorCheckTest, TheNearestNameIsNotThatOfATowerWithTheSamePrefix) {
  naive::Tensors other = renamed(tensors_, "model.", "language_model.model.");
  other["model.vision_tower.patches.weight"] = {.shape = {2}, .data = {1, 2}};
  EXPECT_THAT(message_of(check(other)),
              HasSubstr("is language_model.model.embed_tokens.weight [64, 32]; does"));
}

TEST_F(TensorCheckTest, TheNearestNameIsThatOfAnUnreadTensor) {
  const std::string layer = "model.layers.0.";
  const std::string k = layer + "self_attn.k_proj.weight";
  naive::Tensors other = tensors_;
  other[layer + "attention.key.weight"] = other[k];
  other.erase(k);
  EXPECT_THAT(message_of(check(other)),
              HasSubstr(": " + k + "; nearest to the first is " + layer +
                        "attention.key.weight [16, 32]; does its config.json"));
  other.erase(layer + "attention.key.weight");
  EXPECT_THAT(message_of(check(other)), HasSubstr(": " + k + "; does its config.json"));
}

TEST_F(TensorCheckTest, AMissingHeadMayBeTheEmbedding) {
  naive::Tensors other = tensors_;
  other.erase("lm_head.weight");
  EXPECT_THAT(message_of(check(other)),
              testing::EndsWith(": lm_head.weight; if the head is the embedding, config.json must "
                                "say \"tie_word_embeddings\": true"));
  other.erase("model.norm.weight");
  EXPECT_THAT(message_of(check(other)),
              testing::EndsWith("; does its config.json belong to these weights?"));
}

TEST_F(TensorCheckTest, AnErrorNamesTheStoredAndTheExpectedShape) {
  naive::Tensors other = tensors_;
  other["model.norm.weight"].shape = {2, 16};
  EXPECT_THAT(message_of(check(other)),
              StartsWith("model.norm.weight: the config expects [32], the checkpoint has [2, 16]"));
}

TEST_F(TensorCheckTest, UnreadTensorsOfTheTextPartAreReportedInOneLine) {
  EXPECT_EQ(unread({}), "");
  EXPECT_THAT(unread({"model.layers.0.self_attn.q_proj.bias"}),
              StartsWith("1 tensor is not read: model.layers.0.self_attn.q_proj.bias; "));
  EXPECT_THAT(
      unread({"model.layers.0.a", "model.layers.0.b", "model.norm.bias", "lm_head.bias"}),
      StartsWith(
          "4 tensors are not read: lm_head.bias, model.layers.0.a, model.layers.0.b and 1 more; "));
}

TEST_F(TensorCheckTest, FurtherLayersAreReportedAsUnread) {
  EXPECT_THAT(unread({"model.layers.1.input_layernorm.weight", "model.layers.1.mlp.gate.weight",
                      "model.layers.9.self_attn.k_proj.weight"}),
              StartsWith("3 tensors are not read: model.layers.1.input_layernorm.weight, "));
  for (const char* draft : {"eh_proj.weight", "enorm.weight", "shared_head.norm.weight"}) {
    const std::string layer = "model.layers.1.";
    EXPECT_EQ(unread({layer + draft, layer + "input_layernorm.weight"}), "") << draft;
    EXPECT_NE(unread({layer + draft, "model.layers.2.input_layernorm.weight"}), "") << draft;
  }
}

TEST_F(TensorCheckTest, UnusedKeyTensorsOfALayerThatSharesPagesAreNotReported) {
  const auto golden = test_data("tests/data/goldens/gemma4");
  const Graph graph = describe_model(golden, {}, 0)->graph;
  naive::Tensors tensors = random_tensors(graph, 7);
  const std::string q = "q_proj.weight";
  size_t added = 0;
  for (const auto& [name, tensor] : naive::Tensors(tensors)) {
    if (!name.ends_with("self_attn." + q)) continue;
    const std::string scope = name.substr(0, name.size() - q.size());
    if (tensors.contains(scope + "k_proj.weight")) continue;
    for (const char* key : {"k_proj.weight", "v_proj.weight", "k_norm.weight"}) {
      tensors[scope + key] = {.shape = {2}, .data = {1, 2}};
      ++added;
    }
  }
  ASSERT_GT(added, 0u);
  write_checkpoint(folder_.path(), tensors);
  EXPECT_EQ(unread_tensors(*Checkpoint::open(folder_.path()), graph), "");
}

TEST_F(TensorCheckTest, TensorsThatTheMathsDoesNotNeedAreNotReported) {
  EXPECT_EQ(unread({"model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq",
                    "model.layers.0.attn.masked_bias", "model.layers.0.attn.bias",
                    "model.layers.0.self_attn.indexer.wk.weight", "model.layers.1.eh_proj.weight",
                    "mtp.layers.0.fc.weight", "visual.blocks.0.attn.qkv.bias"}),
            "");
}

}  // namespace
}  // namespace lockstep
