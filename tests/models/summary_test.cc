// SPDX-License-Identifier: Apache-2.0
#include "models/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/models/described_config.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr char kQwen[] = R"({"architectures": ["Qwen2ForCausalLM"], "vocab_size": 10,
  "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 2, "num_attention_heads": 2,
  "max_position_embeddings": 64, "rope_theta": 10000.0, "tie_word_embeddings": true,
  "use_sliding_window": true, "sliding_window": 5, "max_window_layers": 1})";
// The parameters of a layer: two norms; q, k and v with biases; the output projection; the MLP.
constexpr int64_t kLayer = 2 * 8 + 3 * (64 + 8) + 64 + 3 * 48;

TEST(SummaryTest, ParametersAreTheElementsOfTensorsAndATiedHeadAddsNone) {
  const Summary tied = summarize(describe_config(kQwen)->graph);
  EXPECT_EQ(tied.parameters, 80 + 2 * kLayer + 8);
  EXPECT_EQ(tied.tensors.count("lm_head.weight"), 0u);
  EXPECT_THAT(tied.tensors.at("model.layers.1.mlp.down_proj.weight"), ElementsAre(8, 6));
  const Summary own = summarize(describe_config(kQwen, R"({"tie_word_embeddings": false})")->graph);
  EXPECT_EQ(own.parameters, tied.parameters + 80);
}

TEST(SummaryTest, ASharedTableIsListedOnceAndWindowsAreListedByLayer) {
  const Summary summary = summarize(describe_config(kQwen)->graph);
  EXPECT_THAT(summary.rotary, ElementsAre(RotarySummary{2, 1.0f, 0.01f, 1.0f}));
  EXPECT_THAT(summary.windows, ElementsAre(Pair(0, 0), Pair(1, 5)));
}

TEST(SummaryTest, TheFirstOfSeveralSetsOfFrequenciesIsListed) {
  const Summary summary = summarize(describe_config(R"({"architectures": ["Phi3ForCausalLM"],
    "vocab_size": 10, "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 1,
    "num_attention_heads": 2, "max_position_embeddings": 64,
    "original_max_position_embeddings": 16, "rope_theta": 10000.0, "rope_scaling": {
      "type": "longrope", "short_factor": [2, 4], "long_factor": [8, 8]}})")
                                        ->graph);
  ASSERT_EQ(summary.rotary.size(), 1u);
  EXPECT_EQ(summary.rotary[0].count, 2);
  EXPECT_FLOAT_EQ(summary.rotary[0].first, 0.5f);
  EXPECT_FLOAT_EQ(summary.rotary[0].last, 0.0025f);
  EXPECT_GT(summary.rotary[0].factor, 1);
}

}  // namespace
}  // namespace lockstep
