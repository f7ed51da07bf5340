// SPDX-License-Identifier: Apache-2.0
#include "models/config/generation_config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/status.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep {
namespace {

absl::StatusOr<GenerationConfig> read(const std::string& text) {
  const TempFolder folder;
  std::ofstream(folder.path() / "generation_config.json") << text;
  return read_generation_config(folder.path());
}

TEST(GenerationConfigTest, MissingFieldsAreUnset) {
  for (const char* text : {"{}", R"({"temperature": null, "transformers_version": "5"})"}) {
    const absl::StatusOr<GenerationConfig> config = read(text);
    ASSERT_TRUE(config.ok());
    EXPECT_FALSE(config->temperature || config->top_k || config->top_p || config->min_p);
    EXPECT_FALSE(config->repetition_penalty || config->max_new_tokens);
    EXPECT_TRUE(config->eos_token_ids.empty() && config->bos_token_ids.empty());
  }
  EXPECT_TRUE(read_generation_config("/nonexistent").ok());
}

TEST(GenerationConfigTest, FieldsAreRead) {
  const absl::StatusOr<GenerationConfig> config = read(
      R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.1,
          "repetition_penalty": 1.05, "max_new_tokens": 2048, "bos_token_id": 1,
          "eos_token_id": [2, 3]})");
  ASSERT_TRUE(config.ok());
  EXPECT_FLOAT_EQ(*config->temperature, 0.6f);
  EXPECT_EQ(*config->top_k, 20);
  EXPECT_FLOAT_EQ(*config->top_p, 0.95f);
  EXPECT_FLOAT_EQ(*config->min_p, 0.1f);
  EXPECT_FLOAT_EQ(*config->repetition_penalty, 1.05f);
  EXPECT_EQ(*config->max_new_tokens, 2048);
  EXPECT_EQ(config->bos_token_ids, std::vector<int64_t>{1});
  EXPECT_EQ(config->eos_token_ids, (std::vector<int64_t>{2, 3}));
}

TEST(GenerationConfigTest, DefaultsOfTheFlagOverrideThoseOfTheFile) {
  auto config = read(R"({"temperature": 0.5, "top_k": 20, "presence_penalty": 1.5})");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->presence_penalty, 1.5f);
  ASSERT_TRUE(
      add_sampling_defaults(R"({"temperature": 0.25, "frequency_penalty": -1})", &*config).ok());
  EXPECT_EQ(config->temperature, 0.25f);
  EXPECT_EQ(config->top_k, 20);
  EXPECT_EQ(config->frequency_penalty, -1.0f);
  for (const auto& [json, text] :
       {std::pair{"[]", "must be a JSON object, found an array"},
        std::pair{R"({"warmth": 1})", "warmth: must be one of temperature"},
        std::pair{R"({"top_p": 2})", "top_p: must be a number from 0 to 1"}}) {
    const absl::Status status = add_sampling_defaults(json, &*config);
    EXPECT_NE(message_of(status).find(text), std::string::npos) << status;
  }
}

TEST(GenerationConfigTest, NoSamplingMeansTemperatureZero) {
  EXPECT_EQ(*read(R"({"do_sample": false, "temperature": 0.6})")->temperature, 0);
  EXPECT_EQ(*read(R"({"do_sample": false})")->temperature, 0);
}

TEST(GenerationConfigTest, AWrongFieldIsAnErrorOfOneLineThatNamesIt) {
  const char* wrong[][2] = {
      {R"({"temperature": "hot"})", "temperature: must be a number"},
      {R"({"temperature": -1})", "temperature: must be a number from 0"},
      {R"({"top_p": 1.5})", "top_p: must be a number from 0 to 1"},
      {R"({"top_k": 2.5})", "top_k: must be an integer"},
      {R"({"top_k": -2})", "top_k: must be -1 to 1073741824, found -2"},
      {R"({"repetition_penalty": 0})", "repetition_penalty"},
      {R"({"eos_token_id": [2, "x"]})", "eos_token_id: must be a token id"},
      {R"({"eos_token_id": -1})", "eos_token_id"},
      {R"({"do_sample": "no"})", "do_sample: must be true or false"},
      {R"({"max_new_tokens": 0})", "max_new_tokens: must be 1 to 1073741824, found 0"},
      {"[]", "must be an object"}};
  for (const auto& [text, says] : wrong) {
    const absl::StatusOr<GenerationConfig> config = read(text);
    ASSERT_FALSE(config.ok()) << text;
    const std::string message = message_of(config.status());
    EXPECT_NE(message.find(says), std::string::npos) << message;
    EXPECT_NE(message.find("generation_config.json: "), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace lockstep
