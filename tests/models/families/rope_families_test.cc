// SPDX-License-Identifier: Apache-2.0
// Families whose rotary frequencies depend on a length.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/models/described_config.h"

namespace lockstep {
namespace {

// The keys of Phi-4-mini as published, with smaller sizes: heads of 16, two layers.
constexpr char kPhi4Mini[] = R"({"architectures": ["Phi3ForCausalLM"], "attention_bias": false,
  "embd_pdrop": 0.0, "full_attn_mod": 1, "hidden_act": "silu", "hidden_size": 64,
  "intermediate_size": 80, "interpolate_factor": 1, "lm_head_bias": false,
  "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "phi3",
  "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
  "original_max_position_embeddings": 4096, "partial_rotary_factor": 0.75, "rope_scaling": {
  "long_factor": [1, 2, 3, 4, 5, 6], "short_factor": [1, 1, 1, 1, 1, 1], "type": "longrope"},
  "rope_theta": 10000.0, "sliding_window": 262144, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "vocab_size": 320})";

TEST(Phi3Test, LongSequencesHaveTheirOwnFrequencies) {
  const Described config = config_of(kPhi4Mini);
  EXPECT_EQ(config.context, 131072);
  const program::RopeTableAttrs& table = config.rope;
  ASSERT_EQ(table.lengths_size(), 1);
  EXPECT_EQ(table.lengths(0), 4096);
  ASSERT_EQ(table.inv_freq_size(), 12);
  EXPECT_FLOAT_EQ(table.inv_freq(1) / table.inv_freq(7), 2);
  EXPECT_FLOAT_EQ(table.factor(), static_cast<float>(std::sqrt(1 + 5 / 12.0)));
  std::string older = kPhi4Mini;
  older.replace(older.find("longrope"), 8, "su");
  EXPECT_EQ(config_of(older).rope.SerializeAsString(), table.SerializeAsString());
  std::string few = kPhi4Mini;
  few.replace(few.find("5, 6"), 4, "5");
  expect_refused(few, "rope_scaling.long_factor: must be a list of 6 numbers from 0.1 to 1e6");
}

// Qwen-7B as published, with fewer layers.
constexpr char kQwen1[] = R"({"architectures": ["QWenLMHeadModel"], "auto_map": {},
  "attn_dropout_prob": 0.0, "bf16": false, "emb_dropout_prob": 0.0, "fp16": false, "fp32": false,
  "hidden_size": 4096, "intermediate_size": 22016, "initializer_range": 0.02, "kv_channels": 128,
  "layer_norm_epsilon": 1e-06, "max_position_embeddings": 32768, "model_type": "qwen",
  "no_bias": true, "num_attention_heads": 32, "num_hidden_layers": 2, "onnx_safe": null,
  "rotary_emb_base": 10000, "rotary_pct": 1.0, "scale_attn_weights": true, "seq_length": 8192,
  "tie_word_embeddings": false, "tokenizer_class": "QWenTokenizer", "use_cache": true,
  "use_dynamic_ntk": true, "use_flash_attn": "auto", "use_logn_attn": true,
  "vocab_size": 151936})";

TEST(Qwen1Test, PromptsBeyondTheTrainedLengthHaveOtherRopeAndScaledQueries) {
  const Described config = config_of(kQwen1);
  EXPECT_EQ(config.intermediate_size, 11008);
  EXPECT_EQ(config.context, 32768);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FALSE(config.output_bias);
  const program::RopeTableAttrs& table = config.rope;
  ASSERT_EQ(table.lengths_size(), 2) << "the last set covers prompts up to 32768";
  EXPECT_EQ(table.lengths(0), 8192);
  EXPECT_EQ(table.lengths(1), 16384);
  ASSERT_EQ(table.inv_freq_size(), 3 * 64);
  const double exponent = 2.0 / 128 * 128 / 126;  // Alpha's exponent in the second frequency.
  EXPECT_NEAR(table.inv_freq(1) / table.inv_freq(65), std::pow(3, exponent), 1e-6);
  EXPECT_NEAR(table.inv_freq(1) / table.inv_freq(129), std::pow(7, exponent), 1e-6);
  EXPECT_EQ(config.query_scales.length(), 8192);
  EXPECT_FLOAT_EQ(config.query_scales.log_factor(), static_cast<float>(1 / std::log(8192)));
  const absl::StatusOr<ModelDescription> model = describe_config(kQwen1);
  EXPECT_TRUE(model->graph.sequence_rules.rope_length_of_prompt());

  std::string plain = kQwen1;
  for (const std::string key : {"use_dynamic_ntk", "use_logn_attn"}) {
    const std::string on = "\"" + key + "\": true";
    plain.replace(plain.find(on), on.size(), "\"" + key + "\": false");
  }
  EXPECT_EQ(config_of(plain).rope.lengths_size(), 0);
  EXPECT_EQ(config_of(plain).query_scales.length(), 0);
}

TEST(Qwen1Test, ConfigsThatTheReferenceCannotRunAreRefused) {
  const auto replaced = [](std::string config, const std::string& old, const std::string& by) {
    return config.replace(config.find(old), old.size(), by);
  };
  expect_refused(replaced(kQwen1, "22016", "22017"),
                 "intermediate_size: must be an even number, found 22017");
  expect_refused(replaced(kQwen1, R"("no_bias": true)", R"("no_bias": false)"), "no_bias");
  expect_refused(replaced(kQwen1, R"("rotary_pct": 1.0)", R"("rotary_pct": 0.5)"), "rotary_pct");
}

}  // namespace
}  // namespace lockstep
