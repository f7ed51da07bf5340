// SPDX-License-Identifier: Apache-2.0
#include "tools/load/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LoadReport report() {
  const std::vector<LoadRecord> records = {{.scheduled_s = 0,
                                            .sent_s = 0.001,
                                            .first_text_s = 0.1,
                                            .last_text_s = 0.3,
                                            .end_s = 0.5,
                                            .gaps_ms = {200},
                                            .text_events = 2,
                                            .prompt_tokens = 8,
                                            .output_tokens = 2},
                                           {.end_s = 2, .failure = "HTTP 429", .detail = "full"}};
  LoadReport report{.url = "http://host:1/v1", .model = "demo", .endpoint = "chat", .load = "4"};
  report.slo.ttft_ms = 150;
  report.summary = summarize(records, report.slo);
  return report;
}

TEST(LoadReportTest, JsonHasEveryFigure) {
  const OrderedJson json = to_json(report());
  EXPECT_EQ(json["answered"], 1);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["duration_s"], 2.0);
  EXPECT_EQ(json["output_tokens_per_s"], 1.0);
  EXPECT_EQ(json["goodput_per_s"], 0.5);
  EXPECT_EQ(json["slo_ttft_ms"], 150.0);
  EXPECT_TRUE(json["slo_tpot_ms"].is_null());
  EXPECT_NEAR(json["ttft_ms"]["p99"].get<double>(), 100, 1e-6);
  EXPECT_NEAR(json["tpot_ms"]["mean"].get<double>(), 200, 1e-6);
  EXPECT_EQ(json["failures"]["HTTP 429"]["count"], 1);
  EXPECT_EQ(json["failures"]["HTTP 429"]["example"], "full");
}

TEST(LoadReportTest, TextHasRatesPercentilesAndFailures) {
  const std::string text = to_text(report());
  EXPECT_THAT(text, HasSubstr("2 in 2.0 s: 1 answered (0.50/s), 1 failed"));
  EXPECT_THAT(text, HasSubstr("goodput     0.50 requests/s within TTFT 150 ms: 1 of 2"));
  EXPECT_THAT(text, HasSubstr("to the first token           100.0     100.0"));
  EXPECT_THAT(text, HasSubstr("failed      1 x HTTP 429: full"));
  EXPECT_THAT(text, Not(HasSubstr("note")));
}

TEST(LoadReportTest, TheReportSaysWhatMakesFiguresDoubtful) {
  LoadReport doubtful = report();
  doubtful.client_cpu = 0.95;
  doubtful.in_flight = 3;
  doubtful.summary.uncounted = 1;
  const std::string text = to_text(doubtful);
  EXPECT_THAT(text, HasSubstr("busy for 95 %"));
  EXPECT_THAT(text, HasSubstr("3 requests were in flight"));
  EXPECT_THAT(text, HasSubstr("1 answers had no usage"));
}

}  // namespace
}  // namespace lockstep
