// SPDX-License-Identifier: Apache-2.0
#include "tools/load/summary.h"

#include <gtest/gtest.h>

#include <numeric>

namespace lockstep {
namespace {

// Five tokens, the first 100 ms after the request arrived, the others 20 ms apart.
LoadRecord answered(double scheduled_s) {
  return {.scheduled_s = scheduled_s,
          .sent_s = scheduled_s,
          .first_text_s = scheduled_s + 0.1,
          .last_text_s = scheduled_s + 0.18,
          .end_s = scheduled_s + 0.2,
          .gaps_ms = {20, 20, 20, 20},
          .text_events = 5,
          .prompt_tokens = 3,
          .output_tokens = 5};
}

TEST(DistributionTest, PercentilesAreByNearestRank) {
  std::vector<double> values(100);
  std::iota(values.rbegin(), values.rend(), 1);  // 100, 99, ... 1.
  const Distribution hundred = distribution_of(values);
  EXPECT_EQ(hundred.count, 100);
  EXPECT_EQ(hundred.p50, 50);
  EXPECT_EQ(hundred.p90, 90);
  EXPECT_EQ(hundred.p99, 99);
  EXPECT_EQ(hundred.max, 100);
  EXPECT_DOUBLE_EQ(hundred.mean, 50.5);
  const Distribution three = distribution_of({3, 1, 2});
  EXPECT_EQ(three.p50, 2);
  EXPECT_EQ(three.p90, 3);
  EXPECT_EQ(distribution_of({7}).p50, 7);
  EXPECT_EQ(distribution_of({7}).p99, 7);
  EXPECT_EQ(distribution_of({}).count, 0);
}

TEST(LoadSummaryTest, LatenciesCountFromTheArrivalAndNotFromTheSending) {
  LoadRecord record = answered(1);
  record.sent_s = 1.05;
  const std::vector<LoadRecord> records = {record};
  const LoadSummary summary = summarize(records, {});
  EXPECT_NEAR(summary.ttft_ms.p50, 100, 1e-6);
  EXPECT_NEAR(summary.e2e_ms.p50, 200, 1e-6);
  EXPECT_NEAR(summary.late_ms.p50, 50, 1e-6);
}

TEST(LoadSummaryTest, RatesAreOverTheTimeFromTheFirstArrivalToTheLastEnd) {
  const std::vector<LoadRecord> records = {answered(2.8), answered(1)};
  const LoadSummary summary = summarize(records, {});
  EXPECT_NEAR(summary.duration_s, 2, 1e-9);
  EXPECT_EQ(summary.output_tokens, 10);
  EXPECT_EQ(summary.prompt_tokens, 6);
  EXPECT_NEAR(summary.per_second(summary.output_tokens), 5, 1e-9);
  EXPECT_NEAR(summary.tpot_ms.p50, 20, 1e-6);
  EXPECT_EQ(summary.gap_ms.count, 8);
}

TEST(LoadSummaryTest, FailuresAreCountedByKindAndDoNotAffectOtherFigures) {
  std::vector<LoadRecord> records = {answered(0), answered(0), answered(0)};
  records[1].failure = records[2].failure = "HTTP 429";
  records[1].detail = "queue full";
  records[2].detail = "over the limit";
  records[2].end_s = 4;
  const LoadSummary summary = summarize(records, {});
  EXPECT_EQ(summary.requests, 3);
  EXPECT_EQ(summary.answered, 1);
  EXPECT_EQ(summary.good, 1);
  EXPECT_EQ(summary.output_tokens, 5);
  EXPECT_EQ(summary.ttft_ms.count, 1);
  EXPECT_EQ(summary.late_ms.count, 3);
  EXPECT_NEAR(summary.duration_s, 4, 1e-9);
  ASSERT_EQ(summary.failures.size(), 1u);
  EXPECT_EQ(summary.failures.at("HTTP 429").count, 2);
  EXPECT_EQ(summary.failures.at("HTTP 429").example, "queue full");
}

TEST(LoadSummaryTest, GoodAnswersMeetEachLimitOfTheSlo) {
  std::vector<LoadRecord> records = {answered(0), answered(0), answered(0), answered(0)};
  records[1].first_text_s = 0.15;  // 150 ms to the first token.
  records[2].last_text_s = 0.30;   // 50 ms per token after the first one.
  records[3].failure = "timeout";
  EXPECT_EQ(summarize(records, {}).good, 3);
  EXPECT_EQ(summarize(records, {.ttft_ms = 120}).good, 2);
  EXPECT_EQ(summarize(records, {.tpot_ms = 30}).good, 2);
  EXPECT_EQ(summarize(records, {.ttft_ms = 120, .tpot_ms = 30}).good, 1);
}

TEST(LoadSummaryTest, AnAnswerOfOneTokenHasNoTimePerToken) {
  LoadRecord one = answered(0);
  one.output_tokens = one.text_events = 1;
  one.last_text_s = one.first_text_s;
  const std::vector<LoadRecord> records = {one};
  const LoadSummary summary = summarize(records, {.tpot_ms = 1});
  EXPECT_EQ(summary.tpot_ms.count, 0);
  EXPECT_EQ(summary.good, 1);
}

TEST(LoadSummaryTest, EventsCountAsTokensIfUsageIsMissing) {
  LoadRecord record = answered(0);
  record.output_tokens = record.prompt_tokens = 0;
  const std::vector<LoadRecord> records = {record, answered(0)};
  const LoadSummary summary = summarize(records, {});
  EXPECT_EQ(summary.uncounted, 1);
  EXPECT_EQ(summary.output_tokens, 10);
}

TEST(LoadSummaryTest, NoRecordsGiveZeros) {
  const LoadSummary summary = summarize({}, {});
  EXPECT_EQ(summary.requests, 0);
  EXPECT_EQ(summary.duration_s, 0);
  EXPECT_EQ(summary.per_second(5), 0);
}

}  // namespace
}  // namespace lockstep
