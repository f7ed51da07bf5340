// SPDX-License-Identifier: Apache-2.0
// `lockstep generate` on the demo model, with real worker processes.
#include <filesystem>

#include "tests/tools/commands/json_lines.h"

namespace lockstep::testing {
namespace {

const std::string kPrompt = "Once upon a time";

TEST(GenerateTest, TokensAndLogitsAreTheSameForAnyNumberOfWorkersAndThreads) {
  const auto alone = generate_json({"--prompt", kPrompt, "--seed", "7", "--logits", "--max-tokens",
                                    "40", "--workers", "1", "--threads", "1"});
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0]["tokens"].size(), 40u);
  EXPECT_FALSE(alone[0]["prompt_logits"].empty());
  for (const char* workers : {"2", "3", "5"}) {
    for (const char* threads : {"1", "2"}) {
      const auto shared =
          generate_json({"--prompt", kPrompt, "--seed", "7", "--logits", "--max-tokens", "40",
                         "--workers", workers, "--threads", threads});
      ASSERT_EQ(shared.size(), 1u);
      EXPECT_EQ(shared[0], alone[0]) << workers << " workers of " << threads << " threads";
    }
  }
}

TEST(GenerateTest, ReadingTheEmbeddingFromItsFileAndAWeightCacheChangeNothing) {
  TemporaryFolder folder;
  const std::vector<std::string> request = {"--prompt",     kPrompt, "--seed",    "7", "--logits",
                                            "--max-tokens", "20",    "--workers", "2"};
  const auto wanted = generate_json(request);
  std::vector<std::string> flags = request;
  flags.insert(flags.end(), {"--embedding", "file", "--weight-cache", folder.path()});
  for (const char* start : {"first", "second"}) {
    EXPECT_EQ(generate_json(flags), wanted) << start;
    const std::filesystem::directory_iterator files(folder.path());
    EXPECT_EQ(std::distance(files, {}), 2) << start;
  }
}

TEST(GenerateTest, ReduceGivesTheSameGreedyTokens) {
  const auto gather = generate_json({"--prompt", kPrompt, "--temperature", "0", "--workers", "2"});
  const auto reduce = generate_json(
      {"--prompt", kPrompt, "--temperature", "0", "--workers", "2", "--strategy", "reduce"});
  EXPECT_EQ(gather[0]["tokens"], reduce[0]["tokens"]);
}

TEST(GenerateTest, AFileOfRequestsIsAnsweredInOrderWithTheAnswersOfSingleRequests) {
  TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 24; ++i) {
    lines += nlohmann::json{{"prompt", "The " + std::string(i % 5 + 1, 'a') + " fox"},
                            {"max_tokens", 3 + 2 * i},
                            {"seed", 100 + i},
                            {"ignore_eos", true}}
                 .dump() +
             "\n";
  }
  const std::string path = folder.write("requests.jsonl", lines);
  const auto together = generate_json({"--input", path, "--workers", "2"});
  ASSERT_EQ(together.size(), 24u);
  for (const int i : {0, 7, 23}) {
    const auto alone = generate_json({"--prompt", "The " + std::string(i % 5 + 1, 'a') + " fox",
                                      "--max-tokens", std::to_string(3 + 2 * i), "--seed",
                                      std::to_string(100 + i), "--ignore-eos"});
    EXPECT_EQ(together[i], alone[0]) << "request " << i;
    EXPECT_EQ(together[i]["tokens"].size(), static_cast<size_t>(3 + 2 * i));
  }
}

TEST(GenerateTest, ChunkedPrefillChangesNothing) {
  std::string prompt;
  for (int i = 0; i < 30; ++i) prompt += "The fox met an owl. ";
  const auto whole = generate_json({"--prompt", prompt, "--seed", "2", "--logits"});
  const auto chunked =
      generate_json({"--prompt", prompt, "--seed", "2", "--logits", "--prefill-chunk", "7"});
  EXPECT_EQ(whole[0], chunked[0]);
}

TEST(GenerateTest, TheRequestedOutputsArePrinted) {
  const auto answer = generate_json({"--prompt", kPrompt, "--n", "3", "--seed", "1", "--logprobs",
                                     "2", "--max-tokens", "5", "--ignore-eos"});
  ASSERT_EQ(answer[0]["choices"].size(), 3u);
  EXPECT_EQ(answer[0]["choices"][2]["seed"], 3);
  EXPECT_EQ(answer[0]["logprobs"].size(), 5u);
  EXPECT_EQ(answer[0]["logprobs"][0]["top"].size(), 2u);
  EXPECT_EQ(answer[0]["finish_reason"], "length");
  const auto stopped =
      generate_json({"--prompt", kPrompt, "--temperature", "0", "--stop", " a", "--stop", "the"});
  EXPECT_EQ(stopped[0]["finish_reason"], "stop");
  EXPECT_EQ(stopped[0]["text"].get<std::string>().find(" a"), std::string::npos);
}

TEST(GenerateTest, AFileWithOneRequestGivesOnlyJson) {
  TemporaryFolder folder;
  const std::string path =
      folder.write("requests.jsonl", R"({"prompt": "The", "max_tokens": 3, "seed": 1})");
  const ProcessResult result = run_lockstep({"generate", "--input", path});
  EXPECT_EQ(result.code, 0) << result.err;
  const std::vector<nlohmann::json> lines = json_lines(result.out);
  ASSERT_EQ(lines.size(), 1u) << result.out;
  EXPECT_EQ(lines[0]["tokens"].size(), 3u);
}

TEST(GenerateTest, AMinusMeansStandardInput) {
  const std::string request = R"({"prompt": "The", "max_tokens": 3, "seed": 1})";
  TemporaryFolder folder;
  const std::string path = folder.write("requests.jsonl", request + "\n" + request);
  const auto from_file = generate_json({"--input", path});
  EXPECT_EQ(from_file.size(), 2u);
  EXPECT_EQ(generate_json({"--input", "-"}, {.input = request + "\n" + request}), from_file);
}

// The engine's queue has 4,096 places.
TEST(GenerateTest, AFileMayHaveMoreRequestsThanTheQueueHasPlaces) {
  std::string lines;
  for (int i = 0; i < 4200; ++i) lines += "{\"prompt_ids\": [1], \"max_tokens\": 1}\n";
  const auto answers = generate_json({"--input", "-"}, {.input = lines});
  ASSERT_EQ(answers.size(), 4200u);
  for (const nlohmann::json& answer : answers) ASSERT_EQ(answer.at("tokens").size(), 1u);
}

TEST(GenerateTest, TextIsStreamedAndTheSpeedIsPrinted) {
  const ProcessResult result = run_lockstep({"generate", "--prompt", kPrompt, "--seed", "3"});
  EXPECT_EQ(result.code, 0);
  EXPECT_GT(result.out.size(), 20u);
  EXPECT_NE(result.err.find("tokens/s"), std::string::npos);
  EXPECT_EQ(result.err.find('\r'), std::string::npos);  // A file gets no progress lines.
}

}  // namespace
}  // namespace lockstep::testing
