// SPDX-License-Identifier: Apache-2.0
#include "tools/load/workload.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep {
namespace {

std::vector<LoadRequest> all_of(WorkloadOptions options) {
  Workload workload(std::move(options));
  std::vector<LoadRequest> all;
  while (std::optional<LoadRequest> request = workload.next()) all.push_back(*request);
  return all;
}

TEST(WorkloadTest, TheSameSeedDrawsTheSameRequests) {
  const WorkloadOptions options{.rate = 10, .requests = 20, .seed = 7};
  const std::vector<LoadRequest> first = all_of(options), second = all_of(options);
  WorkloadOptions other_seed = options;
  other_seed.seed = 8;
  ASSERT_EQ(first.size(), 20u);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].prompt, second[i].prompt);
    EXPECT_EQ(first[i].at_s, second[i].at_s);
  }
  EXPECT_NE(all_of(other_seed)[0].prompt, first[0].prompt);
  EXPECT_NE(all_of(other_seed)[1].at_s, first[1].at_s);
}

TEST(WorkloadTest, AnotherRateGivesTheSameTexts) {
  const auto slow = all_of({.rate = 1, .requests = 5}), fast = all_of({.rate = 100, .requests = 5});
  for (size_t i = 0; i < slow.size(); ++i) {
    EXPECT_EQ(slow[i].prompt, fast[i].prompt);
    EXPECT_NEAR(slow[i].at_s, 100 * fast[i].at_s, 1e-9);
  }
}

TEST(WorkloadTest, ArrivalsArePoisson) {
  const auto all = all_of({.rate = 50, .prompt_tokens = Lengths(1), .requests = 20001});
  EXPECT_EQ(all[0].at_s, 0);
  std::vector<double> gaps;
  for (size_t i = 1; i < all.size(); ++i) gaps.push_back(all[i].at_s - all[i - 1].at_s);
  double mean = 0, squares = 0;
  for (const double gap : gaps) mean += gap / static_cast<double>(gaps.size());
  for (const double gap : gaps) {
    squares += (gap - mean) * (gap - mean) / static_cast<double>(gaps.size());
  }
  EXPECT_NEAR(mean, 0.02, 0.001);
  // The variance of exponential gaps is the square of their mean.
  EXPECT_NEAR(squares, 0.0004, 0.00004);
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &LoadRequest::at_s));
}

TEST(WorkloadTest, PromptsHaveOneWordPerTokenAndBeginDifferently) {
  const auto all = all_of({.prompt_tokens = Lengths(300), .requests = 2});
  EXPECT_EQ(std::ranges::count(all[0].prompt, ' '), 299);
  EXPECT_NE(all[0].prompt.substr(0, 40), all[1].prompt.substr(0, 40));
}

TEST(WorkloadTest, GivenPromptsAreUsedInRotation) {
  const auto all = all_of({.prompts = {"a", "b"}, .output_tokens = Lengths(9), .requests = 3});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].prompt + all[1].prompt + all[2].prompt, "aba");
  EXPECT_EQ(all[2].max_tokens, 9);
  EXPECT_EQ(all[2].at_s, 0);
}

TEST(WorkloadTest, ATraceIsPlayedToItsEnd) {
  const auto all = all_of({.trace = {{.at_s = 0, .prompt = "Hello", .max_tokens = 3},
                                     {.at_s = 4, .prompt_tokens = 2, .max_tokens = 5}}});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].prompt, "Hello");
  EXPECT_EQ(std::ranges::count(all[1].prompt, ' '), 1);
  EXPECT_EQ(all[1].at_s, 4);
  EXPECT_EQ(all[1].max_tokens, 5);
}

TEST(WorkloadTest, AWorkloadWithoutACountHasNoEnd) {
  Workload workload({.prompt_tokens = Lengths(1)});
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(workload.next().has_value());
}

}  // namespace
}  // namespace lockstep
