// SPDX-License-Identifier: Apache-2.0
// GET /trace of a real server with two workers.
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "tests/support/network/http_client.h"
#include "tests/support/processes/server.h"
#include "tests/support/trace_event.h"

namespace lockstep::testing {
namespace {

using Json = nlohmann::json;
using Thread = std::pair<int, int>;  // Process and thread.

std::map<Thread, std::vector<Json>> by_thread(const std::string& trace) {
  std::map<Thread, std::vector<Json>> threads;
  for (const Json& event : read_trace(trace)) {
    if (event.at("ph") == "X") threads[{event.at("pid"), event.at("tid")}].push_back(event);
  }
  return threads;
}

// The numbers that `lockstep inspect` prints for the demo model's instructions, without those of
// instructions that only make views.
std::set<int> instructions_of(int rank) {
  const ProcessResult result = run_lockstep(
      {"inspect", "--workers", "2", "--rank", std::to_string(rank), "--stage", "program", "--all"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::set<int> found;
  std::istringstream lines(
      result.out.substr(result.out.find('\n', result.out.find("\ninstructions ") + 1)));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ") && line.find(" = columns(") == std::string::npos) {
      found.insert(std::stoi(line));
    }
  }
  return found;
}

TEST(TraceTest, ATraceHasEveryOperatorOfEveryRankInEachStep) {
  Server server({"--workers", "2", "--admin", "127.0.0.1:0"});
  std::jthread load([&] { EXPECT_TRUE(server.generate(story(200, 1)).status.ok()); });
  HttpClient client(server.admin_address());
  const HttpAnswer answer = client.get("/trace?steps=20&timeout=60");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto threads = by_thread(answer.body);
  EXPECT_EQ(threads.at({0, 2}).size(), 20u);
  for (int rank = 0; rank < 2; ++rank) {
    std::map<int, std::set<int>> operators;  // By step.
    std::map<int, int64_t> sums;
    for (const Json& event : threads.at({rank + 1, 2})) {
      const int step = event.at("args").at("step");
      operators[step].insert(event.at("args").at("instruction").get<int>());
      sums[step] += trace_ns(event, "dur");
      EXPECT_NE(event.at("name"), "operator");
    }
    const std::set<int> wanted = instructions_of(rank);
    EXPECT_GT(wanted.size(), 10u);
    EXPECT_EQ(threads.at({rank + 1, 1}).size(), 20u);
    for (const Json& event : threads.at({rank + 1, 1})) {
      const int step = event.at("args").at("step");
      EXPECT_LE(sums[step], trace_ns(event, "dur"));
      // A null step, which has no sequences, only crosses collectives.
      if (event.at("args").at("sequences") > 0) {
        EXPECT_EQ(operators[step], wanted) << step;
      }
    }
  }
}

TEST(TraceTest, ATraceDoesNotChangeTheAnswer) {
  Server server({"--workers", "2", "--admin", "127.0.0.1:0"});
  const Answered plain = server.generate(story(60, 3));
  std::jthread trace(
      [&] { HttpClient(server.admin_address()).get("/trace?steps=256&timeout=60"); });
  const Answered traced = server.generate(story(60, 3));
  EXPECT_EQ(traced.tokens, plain.tokens);
  EXPECT_TRUE(server.generate(story(400, 4)).status.ok());  // The trace ends only after 256 steps.
}

TEST(TraceTest, ATraceIsNotAvailableAtThePublicPort) {
  Server server({"--admin", "127.0.0.1:0"});
  EXPECT_EQ(HttpClient(server.http_address()).get("/trace").status, 404);
}

}  // namespace
}  // namespace lockstep::testing
