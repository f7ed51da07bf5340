// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of prompts against what the reference computes from the same files.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/coordinator/helpers.h"
#include "tests/support/golden_case.h"
#include "tests/support/in_process_cluster.h"
#include "tests/support/test_data.h"

namespace lockstep {
namespace {

class EngineGoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  static std::vector<std::vector<Logprob>> score(Engine& engine, std::vector<int32_t> tokens) {
    Request request;
    request.prompt_ids = std::move(tokens);
    request.max_tokens = 0;
    request.prompt_logprobs = 1;
    const auto stream = engine.submit(request);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return finish(**stream)[0].prompt_logprobs;
  }
};

// The token behind each prompt has the reference's value, whichever it is, and the greedy tokens
// behind a prompt are the best at their places.
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

INSTANTIATE_TEST_SUITE_P(All, EngineGoldenTest,
                         ::testing::Values("llama_gqa", "llama_tied", "qwen3"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace lockstep
