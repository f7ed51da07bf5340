// SPDX-License-Identifier: Apache-2.0
// RWKV: sizes, which come from the tensors if config.json lacks them, and what is refused.
#include <gtest/gtest.h>

#include <string>

#include "tests/models/described_config.h"
#include "tests/support/files/test_data.h"

namespace lockstep {
namespace {

// RWKV-4 169M as published.
constexpr char kRwkv4[] = R"({"architectures": ["RwkvForCausalLM"], "attention_hidden_size": 768,
  "bos_token_id": 0, "context_length": 1024, "eos_token_id": 0, "hidden_size": 768,
  "intermediate_size": 3072, "layer_norm_epsilon": 1e-05, "model_type": "rwkv",
  "num_hidden_layers": 12, "rescale_every": 6, "tie_word_embeddings": false,
  "torch_dtype": "float32", "use_cache": true, "vocab_size": 50277})";

// RWKV-7 191M as published by fla-hub.
constexpr char kRwkv7[] = R"({"architectures": ["RWKV7ForCausalLM"], "a_low_rank_dim": 64,
  "attn": null, "attn_mode": "chunk", "bos_token_id": 1, "decay_low_rank_dim": 64,
  "eos_token_id": 2, "fuse_cross_entropy": true, "fuse_norm": false, "gate_low_rank_dim": 128,
  "head_dim": 64, "hidden_act": "sqrelu", "hidden_ratio": 4.0, "hidden_size": 768,
  "initializer_range": 0.006, "intermediate_size": 3072, "max_position_embeddings": 2048,
  "model_type": "rwkv7", "norm_bias": true, "norm_eps": 1e-05, "norm_first": true,
  "num_heads": 32, "num_hidden_layers": 12, "tie_word_embeddings": false, "use_cache": true,
  "v_low_rank_dim": 32, "value_dim": [768, 768, 768, 768, 768, 768, 768, 768, 768, 768, 768, 768],
  "vocab_size": 65536})";

// The epsilon of the norm within heads that follows a recurrence: the last norm with a weight.
float head_norm_eps(const ModelDescription& model) {
  float eps = 0;
  for (const Node& node : model.graph.nodes()) {
    if (node.op == Op::kHeadNorm && !node.parameters.empty()) eps = node.attributes.norm().eps();
  }
  return eps;
}

TEST(RwkvTest, ThePublishedConfigIsRead) {
  const absl::StatusOr<ModelDescription> rwkv4 = describe_config(kRwkv4, "{}");
  ASSERT_TRUE(rwkv4.ok()) << rwkv4.status();
  EXPECT_EQ(shape_of(*rwkv4, "rwkv.blocks.0.attention.key.weight")[0], 768);
  EXPECT_EQ(rwkv4->config.intermediate_size, 3072);
  EXPECT_EQ(rwkv4->config.eos_token_ids, (std::vector<int64_t>{0}));
  const absl::StatusOr<ModelDescription> rwkv7 = describe_config(kRwkv7, "{}");
  ASSERT_TRUE(rwkv7.ok()) << rwkv7.status();
  EXPECT_EQ(rwkv7->config.heads, 12)
      << "the number of heads follows from their size, not from num_heads";
  EXPECT_EQ(shape_of(*rwkv7, "model.layers.1.attn.v_lora.lora.0.weight")[0], 32);
  EXPECT_EQ(head_norm_eps(*rwkv7), 64e-5f);
}

TEST(RwkvTest, TheContextMayExceedTheTrainedLength) {
  const absl::StatusOr<ModelDescription> model = describe_config(kRwkv4, "{}");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->config.context, 32768);
}

TEST(RwkvTest, MissingSizesAreThoseOfTheTensors) {
  LOCKSTEP_NEEDS_TEST_DATA("goldens/rwkv7");
  const absl::StatusOr<ModelDescription> model = describe_model(test_data("goldens/rwkv7"), {}, 0);
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string layer = "blocks.1.att.";
  EXPECT_EQ(shape_of(*model, layer + "w1")[1], 12);
  EXPECT_EQ(shape_of(*model, layer + "a1")[1], 8);
  EXPECT_EQ(shape_of(*model, layer + "v1")[1], 6);
  EXPECT_EQ(shape_of(*model, layer + "g1")[1], 16);
}

TEST(RwkvTest, OtherModelsAreRefused) {
  expect_refused(kRwkv4, R"({"hidden_size": null})", "hidden_size");
  expect_refused(kRwkv7, R"({"decay_low_rank_dim": null})", "decay_low_rank_dim");
  expect_refused(kRwkv7, R"({"head_dim": 50})", "head_dim: must be a divisor of hidden_size (768)");
  expect_refused(kRwkv7, R"({"value_dim": 1536})", "value_dim: must be hidden_size (768)");
  expect_refused(kRwkv7, R"({"norm_first": false})", "norm_first: false is not supported");
  expect_refused(kRwkv7, R"({"attn": {"layers": [1]}})", "attn: unknown here");
}

}  // namespace
}  // namespace lockstep
