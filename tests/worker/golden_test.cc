// SPDX-License-Identifier: Apache-2.0
// Reference models end to end in this process, against what the reference computes: every greedy
// token, and the logits of the prompt, for several numbers of ranks and both strategies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "tests/support/golden_case.h"
#include "tests/support/in_process_cluster.h"
#include "tests/support/steps.h"

namespace lockstep {
namespace {

constexpr int64_t kPageTokens = 16, kContext = 256;

struct Run {
  std::string name;  // Of the case's folder in the test data.
  int ranks;
  Strategy strategy;
};

std::string run_name(const ::testing::TestParamInfo<Run>& info) {
  const std::string& name = info.param.name;
  return name.substr(name.find('/') + 1) + "_" + std::to_string(info.param.ranks) + "_" +
         strategy_name(info.param.strategy);
}

std::vector<Run> all_runs() {
  struct Case {
    const char* name;
    int heads;
  };
  std::vector<Run> runs;
  for (const Case& c : std::initializer_list<Case>{{"goldens/llama_mha", 4},
                                                   {"goldens/llama_gqa", 8},
                                                   {"goldens/llama_tied", 4},
                                                   {"goldens/llama3_rope", 8},
                                                   {"goldens/mistral_window", 8},
                                                   {"goldens/qwen2", 8},
                                                   {"goldens/qwen3", 4},
                                                   {"goldens/baichuan_7b", 4},
                                                   {"models/stories260k", 8}}) {
    for (const int ranks : {1, 2, 3, 5}) {
      if (ranks > c.heads) continue;
      runs.push_back({c.name, ranks, Strategy::kGather});
      runs.push_back({c.name, ranks, Strategy::kReduce});
    }
  }
  return runs;
}

// A prompt on its way: its tokens so far, and how many the pages hold.
struct Decoding {
  const GoldenPrompt* golden;
  std::vector<int32_t> tokens;
  std::vector<int32_t> pages;
  int64_t done = 0;
  bool finished() const { return tokens.size() >= golden->ids.size() + golden->greedy.size(); }
};

void expect_logits(const std::vector<float>& logits, const std::vector<float>& golden) {
  ASSERT_EQ(logits.size(), golden.size());
  float largest = 0, worst = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    largest = std::max(largest, std::abs(golden[i]));
    worst = std::max(worst, std::abs(logits[i] - golden[i]));
  }
  EXPECT_LE(worst, 2e-4f * largest);
}

// Feeds what is new of every unfinished prompt and takes the best tokens.
void step_all(Group& group, uint64_t number, std::vector<Decoding>& prompts) {
  cluster::Step step;
  step.set_step(number);
  std::vector<Decoding*> in_step;
  for (Decoding& prompt : prompts) {
    if (prompt.finished()) continue;
    add_rows(step, {prompt.tokens.begin() + prompt.done, prompt.tokens.end()}, prompt.done,
             prompt.pages);
    in_step.push_back(&prompt);
  }
  const auto results = group.run(step);
  ASSERT_EQ(message_of(results.status()), "");
  for (int i = 0; i < static_cast<int>(in_step.size()); ++i) {
    Decoding& prompt = *in_step[i];
    if (prompt.done == 0) expect_logits(logits_of(*results, i), prompt.golden->last_logits);
    prompt.done = static_cast<int64_t>(prompt.tokens.size());
    prompt.tokens.push_back(best_of(*results, i));
  }
}

class GoldenTest : public ::testing::TestWithParam<Run> {};

TEST_P(GoldenTest, GivesTheReferencesTokensAndLogits) {
  if (!test_data().has_value()) {
    GTEST_SKIP() << "no goldens: set LOCKSTEP_TEST_DATA to the folder that holds them";
  }
  const GoldenCase golden = load_golden_case(GetParam().name);
  InProcessOptions options{.model = golden.folder,
                           .ranks = GetParam().ranks,
                           .strategy = GetParam().strategy,
                           .dtype = "float32"};
  options.limits.set_context(kContext);
  options.limits.set_page_tokens(kPageTokens);
  auto cluster = InProcessCluster::open(options);
  ASSERT_EQ(message_of(cluster.status()), "");
  auto group = (*cluster)->form();
  ASSERT_EQ(message_of(group.status()), "");

  std::vector<Decoding> prompts;
  int32_t pages = 0;
  for (const GoldenPrompt& prompt : golden.prompts) {
    Decoding& decoding = prompts.emplace_back();
    decoding.golden = &prompt;
    decoding.tokens = prompt.ids;
    for (int64_t i = 0; i < kContext / kPageTokens; ++i) decoding.pages.push_back(pages++);
  }
  ASSERT_LE(pages, (*group)->info().pages);
  const auto unfinished = [](const Decoding& prompt) { return !prompt.finished(); };
  for (uint64_t step = 1; std::any_of(prompts.begin(), prompts.end(), unfinished); ++step) {
    step_all(**group, step, prompts);
    if (HasFatalFailure()) return;
  }
  for (const Decoding& prompt : prompts) {
    const std::vector<int32_t> greedy(
        prompt.tokens.begin() + static_cast<int64_t>(prompt.golden->ids.size()),
        prompt.tokens.end());
    EXPECT_EQ(greedy, prompt.golden->greedy);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, ::testing::ValuesIn(all_runs()), run_name);

}  // namespace
}  // namespace lockstep
