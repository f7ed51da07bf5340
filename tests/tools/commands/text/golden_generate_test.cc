// SPDX-License-Identifier: Apache-2.0
// The command line against the reference's goldens, as a user would compare them.
#include <cmath>

#include "base/source_dir.h"
#include "tests/support/files/test_data.h"
#include "tests/tools/commands/json_lines.h"

namespace lockstep::testing {
namespace {

std::string golden_folder(const std::string& name) {
  if (name == "demo") return LOCKSTEP_SOURCE_DIR "/demo";
  return test_data(name == "stories260k" ? "models" : "goldens") / name;
}

void expect_near(const nlohmann::json& logits, const nlohmann::json& golden) {
  ASSERT_EQ(logits.size(), golden.size());
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    largest = std::max(largest, std::fabs(golden[i].get<double>()));
    difference = std::max(difference, std::fabs(golden[i].get<double>() - logits[i].get<double>()));
  }
  EXPECT_LE(difference, 2e-4 * largest);
}

class GoldenGenerateTest : public ::testing::TestWithParam<std::string> {};

// One full run per case, with three workers; the in-process tests cover other numbers.
TEST_P(GoldenGenerateTest, AgreesWithTheReference) {
  const std::string folder = golden_folder(GetParam());
  LOCKSTEP_NEEDS_TEST_DATA(folder);
  const auto golden = nlohmann::json::parse(read_file(folder + "/golden.json"));
  std::string requests;
  for (const auto& prompt : golden["prompts"]) {
    requests += nlohmann::json{{"prompt_ids", prompt["ids"]},
                               {"max_tokens", prompt["greedy"].size()},
                               {"temperature", 0},
                               {"ignore_eos", true},
                               {"logits", true}}
                    .dump() +
                "\n";
  }
  TemporaryFolder temporary;
  const auto answers = generate_json({folder, "--dtype", "float32", "--workers", "3", "--input",
                                      temporary.write("requests.jsonl", requests)});
  ASSERT_EQ(answers.size(), golden["prompts"].size());
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i]["tokens"], golden["prompts"][i]["greedy"]);
    expect_near(answers[i]["prompt_logits"], golden["prompts"][i]["last_logits"]);
  }
  for (const auto& text : golden.value("texts", nlohmann::json::array())) {
    const auto by_text =
        generate_json({folder, "--dtype", "float32", "--prompt", text["text"].get<std::string>(),
                       "--temperature", "0", "--ignore-eos", "--max-tokens", "16"});
    EXPECT_EQ(by_text[0]["tokens"], text["greedy"]);
    EXPECT_EQ(by_text[0]["prompt_tokens"], text["ids"].size());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, GoldenGenerateTest,
    ::testing::Values("demo", "llama_mha", "llama_gqa", "llama_tied", "llama3_rope",
                      "mistral_window", "qwen2", "qwen3", "baichuan_7b", "internlm", "internlm2",
                      "phi3", "smollm3", "granite", "gemma", "gemma2", "gemma3_text", "mixtral",
                      "qwen2_moe", "qwen3_moe", "glm4", "chatglm2_6b", "gpt_neox_parallel",
                      "gpt_neox_serial", "gptj", "codegen", "moss", "phi", "stablelm",
                      "stablelm_epoch", "falcon_7b_style", "falcon_40b_style", "olmo2", "olmo3",
                      "glm4_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe", "gpt2", "gpt_bigcode_mqa",
                      "mpt_alibi", "baichuan_13b", "baichuan2_13b", "gpt_oss", "qwen1",
                      "minigpt4_prefix", "deepseek_v2", "deepseek_v3", "stories260k"),
    [](const auto& test) { return test.param; });

}  // namespace
}  // namespace lockstep::testing
