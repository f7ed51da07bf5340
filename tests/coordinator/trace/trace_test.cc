// SPDX-License-Identifier: Apache-2.0
// The recorded steps, the JSON that is made from them, and when a request for a trace is answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "coordinator/trace/trace_json.h"
#include "coordinator/trace/trace_requests.h"
#include "tests/coordinator/helpers.h"
#include "tests/support/network/fake_exchange.h"
#include "tests/support/trace_event.h"

namespace lockstep {
namespace {

using testing::FakeExchange;
using ::testing::HasSubstr;

GroupInfo group_of_one() {
  return {.ranks = 1,
          .members = std::make_shared<const std::vector<RankInfo>>(
              std::vector<RankInfo>{{.pid = 11,
                                     .device = "cp\"u",
                                     .isa = "avx2",
                                     .operators = {{"embed", "embedding"}, {"linear", "head"}}}})};
}

// The step is sent at 1,000 ns and answered at 2,000 ns.
StepReport report_of(uint64_t step, const GroupInfo& group, bool traced) {
  StepReport report = {.step = step,
                       .sequences = 1,
                       .rows = 3,
                       .sent_ns = 1'000,
                       .answered_ns = 2'000,
                       .group = &group};
  report.ranks.resize(1);
  report.ranks[0].set_compute_ns(500);
  report.ranks[0].set_wait_ns(100);
  if (!traced) return report;
  cluster::StepTrace trace;
  trace.set_total_ns(600);
  for (int i = 0; i < 2; ++i) {
    trace.add_instructions(i);
    trace.add_begin_ns(10 + 200 * i);
    trace.add_duration_ns(200);
    trace.add_wait_ns(100 * i);
  }
  report.traces.push_back(trace);
  return report;
}

nlohmann::json events_of(const RecordedSteps& steps) {
  TraceJson source(steps);
  std::string text;
  while (source.read(&text) == http::BodySource::State::kMore) {
  }
  return testing::read_trace(text);
}

nlohmann::json named(const nlohmann::json& events, const std::string& name, int pid) {
  for (const nlohmann::json& event : events) {
    if (event["name"] == name && event["pid"] == pid) return event;
  }
  ADD_FAILURE() << "no " << name << " in " << events;
  return {};
}

TEST(TraceJsonTest, ARanksStepIsCenteredBetweenSendingAndAnswer) {
  const GroupInfo group = group_of_one();
  TraceRecorder recorder;
  recorder.on_part(EnginePart::kDecide, 900, 1'000);
  recorder.on_part(EnginePart::kSend, 1'000, 1'100);
  recorder.on_step(report_of(7, group, /*traced=*/true));
  const nlohmann::json events = events_of(recorder.last(1));
  EXPECT_EQ(named(events, "decide", 0)["ts"], 0);
  EXPECT_EQ(named(events, "send", 0)["dur"], 0.1);
  EXPECT_EQ(named(events, "step", 0)["args"]["step"], 7);
  EXPECT_EQ(named(events, "step", 0)["dur"], 1.0);
  EXPECT_EQ(named(events, "step", 1)["ts"], 0.3);
  EXPECT_EQ(named(events, "step", 1)["dur"], 0.6);
  EXPECT_EQ(named(events, "linear", 1)["ts"], 0.51);
  EXPECT_EQ(named(events, "linear", 1)["args"]["value"], "head");
  EXPECT_EQ(named(events, "linear", 1)["args"]["wait_ns"], 100);
  EXPECT_EQ(named(events, "process_name", 1)["args"]["name"], "rank 0 (cp\"u avx2, pid 11)");
}

TEST(TraceJsonTest, AnUntracedStepHasItsRanksWithoutOperators) {
  const GroupInfo group = group_of_one();
  TraceRecorder recorder;
  StepReport report = report_of(7, group, /*traced=*/false);
  report.ranks[0].set_transfer_ns(INT64_MAX);  // A worker may send any number.
  recorder.on_step(report);
  const nlohmann::json events = events_of(recorder.last(1));
  EXPECT_EQ(named(events, "step", 1)["dur"], 1.0);
  for (const nlohmann::json& event : events) EXPECT_NE(event["name"], "linear");
}

TEST(TraceEventTest, ReadTraceFindsEachFaultOfATrace) {
  const auto fault = [](const std::string& events) {
    const std::string named =
        R"({"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":"p"}},)"
        R"({"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"t"}},)";
    return testing::TraceReader().fault_of(R"({"displayTimeUnit":"ns","traceEvents":[)" + named +
                                           events + "]}");
  };
  const std::string span = R"({"ph":"X","pid":1,"tid":2,"name":"a","args":{},"ts":1,"dur":2})";
  EXPECT_EQ(fault(span), "");
  EXPECT_THAT(fault(span + "," + span), HasSubstr("before the end of the previous span"));
  for (const auto& [part, other] :
       std::vector<std::pair<std::string, std::string>>{{R"("ts":1)", R"("ts":-1)"},
                                                        {R"("dur":2)", R"("dur":-0.001)"},
                                                        {R"("dur":2)", R"("dur":"2")"},
                                                        {R"(,"dur":2)", ""},
                                                        {R"("tid":2)", R"("tid":3)"},
                                                        {R"("pid":1)", R"("pid":2)"},
                                                        {R"("pid":1,)", ""},
                                                        {R"("ph":"X")", R"("ph":"B")"},
                                                        {R"("name":"a")", R"("name":"")"},
                                                        {R"("args":{})", R"("args":[])"},
                                                        {R"("ts":1)", R"("ts":1,"ts":1)"},
                                                        {R"("ts":1)", R"("ts":)"}}) {
    std::string broken = span;
    broken.replace(broken.find(part), part.size(), other);
    EXPECT_NE(fault(broken), "") << broken;
  }
}

TEST(TraceJsonTest, ATraceMayHaveNoSteps) { EXPECT_FALSE(events_of({}).empty()); }

TEST(TraceJsonTest, ATraceIsWrittenInPiecesOfBoundedSize) {
  const GroupInfo group = group_of_one();
  TraceRecorder recorder;
  for (uint64_t i = 1; i <= TraceRecorder::kMaxSteps; ++i) {
    recorder.on_step(report_of(i, group, /*traced=*/true));
  }
  TraceJson source(recorder.last(TraceRecorder::kMaxSteps));
  std::string text;
  int pieces = 0;
  for (bool more = true; more; ++pieces) {
    const size_t before = text.size();
    more = source.read(&text) == http::BodySource::State::kMore;
    EXPECT_LT(text.size() - before, http::kPieceBytes + 4096);
  }
  EXPECT_GT(pieces, 1);
  EXPECT_TRUE(nlohmann::json::accept(text));
}

TEST(TraceRecorderTest, KeepsTheLastStepsAndNoEmptyOnesUnlessTraced) {
  const GroupInfo group = group_of_one();
  TraceRecorder recorder;
  for (uint64_t i = 1; i <= TraceRecorder::kMaxSteps + 10; ++i) {
    recorder.on_step(report_of(i, group, /*traced=*/false));
  }
  StepReport empty = report_of(9'000, group, /*traced=*/false);
  empty.sequences = 0;
  recorder.on_step(empty);
  RecordedSteps kept = recorder.last(10'000);
  EXPECT_EQ(kept.size(), static_cast<size_t>(TraceRecorder::kMaxSteps));
  EXPECT_EQ(kept.back()->report.step, TraceRecorder::kMaxSteps + 10u);
  EXPECT_EQ(recorder.last(2).front()->report.step, TraceRecorder::kMaxSteps + 9u);
  empty.traces.resize(1);
  recorder.on_step(empty);
  EXPECT_EQ(recorder.last(1).front()->report.step, 9'000u);
}

TEST(TraceRecorderTest, AsksForTracesOfTheRequestedNumberOfSteps) {
  const GroupInfo group = group_of_one();
  TraceRecorder recorder;
  EXPECT_FALSE(recorder.wants_trace());
  recorder.trace_next(2);
  recorder.trace_next(1);  // The same steps answer this request, too.
  for (uint64_t i = 1; i <= 2; ++i) {
    EXPECT_TRUE(recorder.wants_trace());
    recorder.on_step(report_of(i, group, /*traced=*/true));
  }
  EXPECT_FALSE(recorder.wants_trace());
  EXPECT_EQ(recorder.traced(), 2);
}

TEST(TraceQueryTest, AQueryHasStepsAndATimeoutAndNothingElse) {
  const TraceQuery query = parse_trace_query("timeout=2&steps=5").value();
  EXPECT_EQ(query.steps, 5);
  EXPECT_EQ(query.timeout_s, 2);
  EXPECT_FALSE(parse_trace_query("")->waits);
  for (const char* bad : {"steps=0", "steps=257", "steps=", "steps", "steps=1x", "steps=-1", "x=1",
                          "timeout=61", "timeout=99999999999", "=", "steps=5&&"}) {
    EXPECT_FALSE(parse_trace_query(bad).ok()) << bad;
  }
}

class TraceRequestsTest : public ::testing::Test {
 protected:
  TraceRequestsTest() { EXPECT_TRUE(engine_.wait_ready().ok()); }

  std::shared_ptr<FakeExchange> ask(const std::string& query) {
    const auto exchange = std::make_shared<FakeExchange>("GET", "/trace" + query, "");
    requests_.routes()[0].handler(exchange, {});
    return exchange;
  }
  static int steps_in(const http::Response& response) {
    int steps = 0;
    const nlohmann::json trace = nlohmann::json::parse(response.body);
    for (const nlohmann::json& event : trace.at("traceEvents")) {
      steps += event["name"] == "step" && event["pid"] == 0;
    }
    return steps;
  }

  TraceRecorder recorder_;
  FakeCluster cluster_{FakeModel{}};
  Engine engine_{&cluster_, nullptr, {.idle_step_ms = 5, .observer = &recorder_}};
  TraceRequests requests_{&recorder_, &engine_};
};

TEST_F(TraceRequestsTest, AnIdleServerAnswersAtOnceWithThePastSteps) {
  EXPECT_EQ(steps_in(ask("")->wait()), 0);
  const auto stream = engine_.submit(request_of(1, 3, 4));
  finish(**stream);
  eventually([&] { return engine_.stats().running == 0; });
  EXPECT_EQ(steps_in(ask("")->wait()), 4);
  EXPECT_EQ(steps_in(ask("?steps=3")->wait()), 3);
}

TEST_F(TraceRequestsTest, ARequestWithATimeoutWaitsForSteps) {
  EXPECT_EQ(steps_in(ask("?steps=4&timeout=60")->wait()), 4);  // These steps are empty.
  EXPECT_EQ(steps_in(ask("?steps=4&timeout=0")->wait()), 4);
  eventually([&] { return !recorder_.wants_trace(); });
}

TEST_F(TraceRequestsTest, ManyRequestsWaitForTheSameStepsAndMoreAreRefused) {
  StepGate gate(cluster_);
  std::vector<std::shared_ptr<FakeExchange>> all;
  all.reserve(17);
  for (int i = 0; i < 17; ++i) all.push_back(ask("?steps=2&timeout=60"));
  EXPECT_EQ(all.back()->wait().status, 429);
  all.pop_back();
  gate.open();
  for (const auto& one : all) EXPECT_GE(steps_in(one->wait()), 2);
}

TEST_F(TraceRequestsTest, ABadQueryIsRefusedInOneLine) {
  const http::Response response = ask("?steps=many")->wait();
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, HasSubstr("steps: must be 1 to 256, found many"));
}

}  // namespace
}  // namespace lockstep
