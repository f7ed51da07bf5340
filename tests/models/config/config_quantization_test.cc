// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "models/config/quantization.h"
#include "tests/models/described_config.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr char kLlama[] = R"({
  "architectures": ["LlamaForCausalLM"], "vocab_size": 320, "hidden_size": 64,
  "intermediate_size": 124, "num_hidden_layers": 2, "num_attention_heads": 8,
  "max_position_embeddings": 256})";

TEST(ConfigQuantizationTest, EachMethodIsNamedWithASolution) {
  for (const char* method : {"fp8", "fbgemm_fp8", "modelopt", "compressed-tensors", "mxfp4", "awq",
                             "gptq", "bitsandbytes", "torchao", "exl3"}) {
    Json json = Json::parse(kLlama);
    json["quantization_config"] = {{"quant_method", method}, {"bits", 4}};
    const absl::StatusOr<ModelDescription> model = describe_config(json.dump());
    ASSERT_FALSE(model.ok());
    const std::string message = message_of(model.status());
    EXPECT_THAT(message, HasSubstr("by the method \"" + std::string(method) + "\" ("));
    EXPECT_THAT(message, HasSubstr("take the original model"));
    EXPECT_THAT(message, HasSubstr("--quantize"));
  }
}

TEST(ConfigQuantizationTest, AnUnknownMethodIsShown) {
  expect_refused(kLlama, R"({"quantization_config": {"quant_method": "newest"}})",
                 "quantization_config: the weights are stored by a string (\"newest\"), which is");
  expect_refused(kLlama, R"({"quantization_config": {"bits": 4}})", "are stored by an object");
  expect_refused(kLlama, R"({"quantization_config": {"quant_algo": "FP8"}})",
                 "by the method \"modelopt\"");
}

TEST(ConfigQuantizationTest, AnOlderNameOfTheKeyIsRead) {
  expect_refused(kLlama, R"({"compression_config": {"quant_method": "compressed-tensors"}})",
                 "compression_config: the weights are stored by the method \"compressed-tensors\"");
}

TEST(ConfigQuantizationTest, QuantizationIsReportedBeforeUnknownKeys) {
  expect_refused(kLlama, R"({"quantization_config": {"quant_method": "fp8"}, "unknown_key": 3})",
                 "by the method \"fp8\"");
}

TEST(ConfigQuantizationTest, AFileNextToConfigJsonIsRead) {
  const TempFolder folder;
  std::ofstream(folder.path() / "config.json") << kLlama;
  const auto describe = [&](const char* file) {
    std::ofstream(folder.path() / "hf_quant_config.json") << file;
    return describe_model(folder.path(), {}, 0);
  };
  expect_refused(describe(R"({"quantization": {"quant_algo": "NVFP4"}})"),
                 "hf_quant_config.json: the weights are stored by the method \"modelopt\"");
  expect_refused(describe("{}"), "hf_quant_config.json: ");
  expect_refused(describe("{"), "hf_quant_config.json: not valid JSON");
  // This file quantizes only the KV cache, not the weights.
  EXPECT_TRUE(
      describe(R"({"quantization": {"quant_algo": null, "kv_cache_quant_algo": "FP8"}})").ok());
}

}  // namespace
}  // namespace lockstep
