// SPDX-License-Identifier: Apache-2.0
// Compares log-probabilities of prompts with the reference's for the same files; and tokens, for
// models whose rotary frequencies depend on the length, and for ChatGLM-6B with its prefixes.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/coordinator/helpers.h"
#include "tests/support/cluster/in_process_cluster.h"
#include "tests/support/files/test_data.h"
#include "tests/support/goldens/golden_case.h"

namespace lockstep {
namespace {

class EngineGoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  static std::vector<std::vector<Logprob>> score(Engine& engine, std::vector<int32_t> tokens) {
    EngineRequest request;
    request.prompt_ids = std::move(tokens);
    request.max_tokens = 0;
    request.prompt_logprobs = 1;
    const auto stream = engine.submit(request);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return finish(**stream)[0].prompt_logprobs;
  }
};

// Every 37th id, appended to a prompt, has the reference's log-probability. The reference's greedy
// tokens, appended to a prompt, each have the largest log-probability at their position.
TEST_P(EngineGoldenTest, AScoredPromptHasTheReferencesValues) {
  const std::string name = std::string("goldens/") + GetParam();
  LOCKSTEP_NEEDS_TEST_DATA(name);
  const GoldenCase golden = load_golden_case(name);
  InProcessOptions options{.model = golden.folder, .ranks = 2, .dtype = "float32"};
  options.limits.set_outputs(6);
  absl::StatusOr<std::unique_ptr<InProcessCluster>> cluster = InProcessCluster::open(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  Engine engine(cluster->get(), nullptr, {});
  ASSERT_TRUE(engine.wait_ready().ok());
  for (const GoldenPrompt& prompt : golden.prompts) {
    double sum = 0, largest = 0;
    for (const float logit : prompt.last_logits) {
      sum += std::exp(static_cast<double>(logit));
      largest = std::max(largest, std::abs(static_cast<double>(logit)));
    }
    for (size_t id = 0; id < prompt.last_logits.size(); id += 37) {
      std::vector<int32_t> tokens = prompt.ids;
      tokens.push_back(static_cast<int32_t>(id));
      const std::vector<std::vector<Logprob>> scores = score(engine, tokens);
      ASSERT_EQ(scores.size(), tokens.size());
      EXPECT_NEAR(scores.back()[0].logprob, prompt.last_logits[id] - std::log(sum), 4e-4 * largest);
    }
    std::vector<int32_t> tokens = prompt.ids;
    tokens.insert(tokens.end(), prompt.greedy.begin(), prompt.greedy.end());
    const std::vector<std::vector<Logprob>> scores = score(engine, tokens);
    for (size_t at = prompt.ids.size(); at < tokens.size(); ++at) {
      EXPECT_EQ(scores[at][0].id, tokens[at]);
      EXPECT_EQ(scores[at][1].id, tokens[at]) << "the best of position " << at;
    }
  }
}

class EngineSequenceTest : public ::testing::TestWithParam<const char*> {};

// Some sequences grow beyond a length at which rotary frequencies change, others start beyond it.
// In the second round most of each prompt is cached, except with ChatGLM-6B: nearly all of its
// prompt is one prefix, which is never shared.
TEST_P(EngineSequenceTest, SequencesOfAnyLengthInOneBatchHaveTheReferencesTokens) {
  LOCKSTEP_NEEDS_TEST_DATA(GetParam());
  const GoldenCase golden = load_golden_case(GetParam());
  const bool cached = !std::string_view(GetParam()).ends_with("chatglm_6b");
  InProcessOptions options{.model = golden.folder, .ranks = 2, .dtype = "float32"};
  absl::StatusOr<std::unique_ptr<InProcessCluster>> cluster = InProcessCluster::open(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  Engine engine(cluster->get(), nullptr, {.prefill_chunk = 17});
  ASSERT_TRUE(engine.wait_ready().ok());
  for (const bool again : {false, true}) {
    std::vector<absl::StatusOr<std::shared_ptr<Stream>>> streams;
    for (const GoldenPrompt& prompt : golden.prompts) {
      EngineRequest request;
      request.prompt_ids = prompt.ids;
      request.max_tokens = static_cast<int32_t>(prompt.greedy.size());
      request.sampling.temperature = 0;
      streams.push_back(engine.submit(request));
      ASSERT_TRUE(streams.back().ok()) << streams.back().status();
    }
    for (size_t i = 0; i < streams.size(); ++i) {
      const Answer answer = finish(**streams[i])[0];
      EXPECT_EQ(answer.tokens, golden.prompts[i].greedy);
      const size_t full = (golden.prompts[i].ids.size() - 1) / 16 * 16;
      EXPECT_EQ(answer.cached_tokens, again && cached ? static_cast<int32_t>(full) : 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EngineSequenceTest,
                         ::testing::Values("tests/data/goldens/phi3_longrope",
                                           "tests/data/goldens/qwen1_ntk", "goldens/chatglm_6b"),
                         [](const auto& test) {
                           const std::string path = test.param;
                           return path.substr(path.rfind('/') + 1);
                         });
INSTANTIATE_TEST_SUITE_P(All, EngineGoldenTest,
                         ::testing::Values("llama_gqa", "llama_tied", "qwen3"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lockstep
