// SPDX-License-Identifier: Apache-2.0
// The names and labels that dashboards read, and when each metric counts.
#include "coordinator/metrics/engine_metrics.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>

#include "base/status.h"
#include "coordinator/engine/engine.h"
#include "tests/coordinator/helpers.h"
#include "tests/support/cluster/fake_cluster.h"
#include "tests/support/patience.h"

namespace lockstep {
namespace {

constexpr int64_t kMs = 1'000'000;

StreamEvent token_of(int32_t index, FinishReason reason = FinishReason::kNone) {
  StreamEvent event;
  event.index = index;
  event.token_ids = {7};
  event.finish_reason = reason;
  event.prompt_tokens = 30;
  event.completion_tokens = 2;
  return event;
}

// The value of a line of Prometheus' text format; -1 if there is no such line.
double value_of(const std::string& text, const std::string& series) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(series + " ")) return std::stod(line.substr(series.size() + 1));
  }
  return -1;
}

class EngineMetricsTest : public testing::Test {
 protected:
  double value(const std::string& name, const std::string& labels = "") const {
    const std::string text = metrics_.text(stats_);
    return value_of(text, "lockstep:" + name + "{" + labels + "model_name=\"story\"}");
  }

  EngineMetrics metrics_{"lockstep", "story"};
  EngineStats stats_;
  Stream stream_;
};

TEST_F(EngineMetricsTest, EachChoiceCountsItsFirstTokenAndTheGapsBetweenItsTokens) {
  metrics_.on_submitted(&stream_, {}, 0);
  metrics_.on_started(&stream_, 20 * kMs);
  metrics_.on_event(&stream_, token_of(0), 100 * kMs);
  metrics_.on_event(&stream_, token_of(1), 300 * kMs);
  metrics_.on_event(&stream_, token_of(0), 130 * kMs);
  EXPECT_NEAR(value("request_queue_time_seconds_sum"), 0.020, 1e-9);
  EXPECT_EQ(value("time_to_first_token_seconds_count"), 2);
  EXPECT_NEAR(value("time_to_first_token_seconds_sum"), 0.4, 1e-9);
  EXPECT_EQ(value("inter_token_latency_seconds_count"), 1);
  EXPECT_NEAR(value("inter_token_latency_seconds_sum"), 0.03, 1e-9);
}

TEST_F(EngineMetricsTest, ARequestWaitsOnceForAnyNumberOfChoices) {
  metrics_.on_submitted(&stream_, {}, 0);
  metrics_.on_started(&stream_, 20 * kMs);
  metrics_.on_started(&stream_, 50 * kMs);
  EXPECT_EQ(value("request_queue_time_seconds_count"), 1);
}

TEST_F(EngineMetricsTest, EndsAreCountedByTheirReason) {
  metrics_.on_submitted(&stream_, {}, 0);
  metrics_.on_event(&stream_, token_of(0, FinishReason::kStop), 10 * kMs);
  metrics_.on_event(&stream_, token_of(1, FinishReason::kCancelled), 20 * kMs);
  metrics_.on_closed(&stream_, absl::CancelledError("the server is stopping"), 20 * kMs);
  Stream failed;
  metrics_.on_submitted(&failed, {}, 0);
  metrics_.on_closed(&failed, unavailable("the group of workers was lost"), 30 * kMs);
  EXPECT_EQ(value("request_success_total", "finished_reason=\"stop\","), 1);
  EXPECT_EQ(value("request_success_total", "finished_reason=\"abort\","), 1);
  EXPECT_EQ(value("request_success_total", "finished_reason=\"length\","), 0);
  EXPECT_EQ(value("request_success_total", "finished_reason=\"error\","), 1);
  EXPECT_EQ(value("request_prompt_tokens_sum"), 60);
}

TEST_F(EngineMetricsTest, PromptTokensCountWhetherTheyAreCachedOrNot) {
  const EngineRequest request = {
      .prompt_ids = std::vector<int32_t>(30, 7), .max_tokens = 50, .n = 2};
  metrics_.on_submitted(&stream_, request, 0);
  metrics_.on_started(&stream_, 20 * kMs);
  metrics_.on_event(&stream_, token_of(0), 100 * kMs);
  metrics_.on_event(&stream_, token_of(1), 110 * kMs);
  metrics_.on_event(&stream_, token_of(0, FinishReason::kStop), 150 * kMs);
  stats_.prompt_tokens = 4;
  EXPECT_EQ(value("prompt_tokens_total"), 60);
  EXPECT_EQ(value("computed_prompt_tokens_total"), 4);
  EXPECT_NEAR(value("request_prefill_time_seconds_sum"), 0.080, 1e-9);
  EXPECT_NEAR(value("request_decode_time_seconds_sum"), 0.050, 1e-9);
  EXPECT_NEAR(value("request_inference_time_seconds_sum"), 0.130, 1e-9);
  EXPECT_EQ(value("iteration_tokens_total_count"), 0) << "the step may get more tokens";
  metrics_.on_part(EnginePart::kSend, 0, 1);
  EXPECT_EQ(value("iteration_tokens_total_count"), 0);
  metrics_.on_part(EnginePart::kEmit, 1, 2);
  EXPECT_EQ(value("iteration_tokens_total_sum"), 63) << "both prompts and three tokens";
  metrics_.on_part(EnginePart::kEmit, 2, 3);
  EXPECT_EQ(value("iteration_tokens_total_count"), 1);
  EXPECT_EQ(value("request_params_n_sum"), 2);
  EXPECT_EQ(value("request_params_max_tokens_sum"), 50);
}

TEST_F(EngineMetricsTest, AStepCountsTheComputedTokens) {
  metrics_.on_submitted(&stream_, {.prompt_ids = std::vector<int32_t>(30, 7)}, 0);
  StreamEvent first = token_of(0);
  first.cached_tokens = 16;
  metrics_.on_event(&stream_, first, 100 * kMs);
  metrics_.on_part(EnginePart::kEmit, 0, 1);
  EXPECT_EQ(value("iteration_tokens_total_sum"), 15);
}

TEST_F(EngineMetricsTest, PreemptionsAreCountedWhenAChoiceEnds) {
  metrics_.on_submitted(&stream_, {.n = 2}, 0);
  StreamEvent last = token_of(0, FinishReason::kStop);
  last.preemptions = 3;
  metrics_.on_event(&stream_, last, 10 * kMs);
  metrics_.on_event(&stream_, token_of(1, FinishReason::kStop), 10 * kMs);
  EXPECT_EQ(value("request_num_preemptions_sum"), 3);
  EXPECT_EQ(value("request_num_preemptions_count"), 2);
}

TEST_F(EngineMetricsTest, RequestsThatTheQueueRefusedCountByItsBound) {
  stats_.refused = {.requests = 2, .choices = 1, .prompt_tokens = 4, .bytes = 5};
  EXPECT_EQ(value("admission_rejections_total", "reason=\"max_num_queued_reqs\","), 3);
  EXPECT_EQ(value("admission_rejections_total", "reason=\"max_num_queued_tokens\","), 4);
  EXPECT_EQ(value("admission_rejections_total", "reason=\"max_num_queued_bytes\","), 5);
  EXPECT_EQ(value_of(metrics_.text(stats_, {.too_long_waits = 6}),
                     "lockstep:admission_rejections_total{reason=\"queue_seconds\","
                     "model_name=\"story\"}"),
            6);
}

TEST_F(EngineMetricsTest, ARequestThatWaitsForALargerGroupCountsAsDeferred) {
  stats_.waiting = 5;
  metrics_.on_submitted(&stream_, {.n = 2}, 0);
  metrics_.on_set_aside(&stream_);
  EXPECT_EQ(value("num_requests_waiting_by_reason", "reason=\"deferred\","), 2);
  EXPECT_EQ(value("num_requests_waiting_by_reason", "reason=\"capacity\","), 3);
  metrics_.on_started(&stream_, 20 * kMs);
  EXPECT_EQ(value("num_requests_waiting_by_reason", "reason=\"deferred\","), 0);
}

TEST_F(EngineMetricsTest, NumberAndSizeOfPagesAreALabelledMetric) {
  stats_.group.pages = 80;
  stats_.group.page_tokens = 16;
  stats_.group.max_context = 512;
  EXPECT_EQ(value("cache_config_info",
                  "block_size=\"16\",num_gpu_blocks=\"80\",kv_cache_size_tokens=\"1280\","
                  "kv_cache_max_concurrency=\"2.5\","
                  "enable_prefix_caching=\"True\","),
            1);
}

TEST_F(EngineMetricsTest, TimesOfStepsAddUpByRankAndPart) {
  StepReport report = {.step = 1, .sequences = 2, .rows = 9, .sent_ns = 0, .answered_ns = 5 * kMs};
  report.ranks.resize(2);
  report.ranks[1].set_compute_ns(3 * kMs);
  report.ranks[1].set_wait_ns(1 * kMs);
  metrics_.on_step(report);
  metrics_.on_step(report);
  metrics_.on_step({.step = 3});  // A null step does not count.
  EXPECT_NEAR(value("worker_seconds_total", "rank=\"1\",part=\"compute\","), 0.006, 1e-12);
  EXPECT_NEAR(value("worker_seconds_total", "rank=\"1\",part=\"wait\","), 0.002, 1e-12);
  EXPECT_NEAR(value("step_seconds_total"), 0.010, 1e-12);
}

TEST_F(EngineMetricsTest, GaugesHaveTheCurrentValues) {
  stats_.ready = true;
  stats_.running = 3;
  stats_.waiting = 5;
  stats_.group.pages = 80;
  stats_.pages_free = 60;
  EXPECT_EQ(value("ranks"), 0) << "no group yet";
  stats_.group.ranks = 3;
  EXPECT_EQ(value("ranks"), 3);
  EXPECT_EQ(value("ready"), 1);
  EXPECT_EQ(value("num_requests_running"), 3);
  EXPECT_EQ(value("num_requests_waiting"), 5);
  EXPECT_DOUBLE_EQ(value("kv_cache_usage_perc"), 0.25);
}

TEST_F(EngineMetricsTest, CountersOutsideTheEngineAreIncluded) {
  const std::string text = metrics_.text(stats_, {.unknown_fields = 3, .log_lines_dropped = 4});
  EXPECT_EQ(value_of(text, "lockstep:unknown_fields_total{model_name=\"story\"}"), 3);
  EXPECT_EQ(value_of(text, "lockstep:log_lines_dropped_total{model_name=\"story\"}"), 4);
}

TEST_F(EngineMetricsTest, AnotherPrefixAndAHostileModelNameKeepTheFormat) {
  const EngineMetrics other("vllm", "a\"b\\c\nd");
  const std::string text = other.text(stats_);
  EXPECT_EQ(value_of(text, "vllm:num_requests_running{model_name=\"a\\\"b\\\\c\\nd\"}"), 0);
  EXPECT_EQ(text.find("lockstep:"), std::string::npos);
}

TEST_F(EngineMetricsTest, TheStateForTheWebPageNamesEachRankAndItsBytes) {
  stats_.group.members = std::make_shared<const std::vector<RankInfo>>(std::vector<RankInfo>{
      {.host = "a", .pid = 11, .device = "cpu", .isa = "avx2", .weight_bytes = 100},
      {.host = "b\xff", .pid = 12, .device = "cpu", .isa = "avx2", .weight_bytes = 90}});
  stats_.times_ns[static_cast<size_t>(EnginePart::kDecide)] = 5;
  StepReport report = {.step = 1, .sequences = 1, .rows = 1, .sent_ns = 0, .answered_ns = 10};
  report.ranks.resize(2);
  report.ranks[1].set_wait_ns(4);
  metrics_.on_step(report);
  const nlohmann::json state = nlohmann::json::parse(metrics_.state_json(stats_));
  ASSERT_EQ(state["ranks"].size(), 2u);
  EXPECT_EQ(state["ranks"][0]["weight_bytes"], 100);
  EXPECT_EQ(state["ranks"][1]["wait_ns"], 4);
  EXPECT_EQ(state["ranks"][1]["host"], "b\uFFFD");
  EXPECT_EQ(state["coordinator_ns"]["decide"], 5);
  EXPECT_EQ(state["step_ns"], 10);
}

TEST_F(EngineMetricsTest, TheStateForTheWebPageNamesSparesAndTheRanksThatTheyCover) {
  const std::vector<WorkerState> workers = {
      {.rank = 0, .pid = 11},
      {.role = WorkerState::Role::kSpare, .pid = 12, .weight_bytes = 70, .covers = 1},
      {.role = WorkerState::Role::kWaiting, .pid = 13}};
  const nlohmann::json state = nlohmann::json::parse(metrics_.state_json(stats_, workers));
  ASSERT_EQ(state["spares"].size(), 2u);
  EXPECT_EQ(state["spares"][0]["role"], "spare");
  EXPECT_EQ(state["spares"][0]["holds"], 1);
  EXPECT_EQ(state["spares"][0]["weight_bytes"], 70);
  EXPECT_EQ(state["spares"][1]["pid"], 13);
  EXPECT_TRUE(state["spares"][1]["holds"].is_null());
}

// The engine divides its thread's time into parts. Together they are all of the time.
TEST(EngineMetricsInEngineTest, PartsAddUpToTheThreadsTime) {
  EngineMetrics metrics("lockstep", "story");
  FakeCluster cluster(FakeModel{});
  EngineOptions options;
  options.observer = &metrics;
  options.idle_step_ms = 5;  // Idle time is reported while it lasts.
  const auto begin = std::chrono::steady_clock::now();
  Engine engine(&cluster, nullptr, options);
  ASSERT_TRUE(engine.wait_ready().ok());
  const auto stream = engine.submit(request_of(1, 3, 20));
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ(finish(**stream)[0].tokens.size(), 20u);
  EXPECT_TRUE(becomes_true([&] {
    const EngineTimes times = engine.stats().times_ns;
    const double sum =
        1e-9 * static_cast<double>(std::accumulate(times.begin(), times.end(), int64_t{0}));
    const double wall =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_LE(sum, wall);
    return sum >= 0.95 * wall;
  }));
  const std::string text = metrics.text(engine.stats());
  EXPECT_EQ(value_of(text, "lockstep:time_to_first_token_seconds_count{model_name=\"story\"}"), 1);
  EXPECT_EQ(value_of(text, "lockstep:inter_token_latency_seconds_count{model_name=\"story\"}"), 19);
  EXPECT_GT(value_of(text, "lockstep:step_seconds_total{model_name=\"story\"}"), 0);
}

}  // namespace
}  // namespace lockstep
