// SPDX-License-Identifier: Apache-2.0
// `lockstep bench serve` as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/source_dir.h"
#include "tests/support/processes/process.h"
#include "tests/tools/load/fake_openai.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

ProcessResult bench(const FakeOpenAi& server, std::vector<std::string> arguments) {
  std::vector<std::string> all = {"bench", "serve", "--url", server.url(), "--output-tokens", "4"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return run_lockstep(std::move(all), {.environment = {{"OPENAI_API_KEY", "secret"}}});
}

TEST(BenchServeTest, AnOpenLoadIsMeasured) {
  const FakeOpenAi server([](const FakeRequest&) { return FakeAnswer{}; });
  const ProcessResult result = bench(server, {"--rate", "200", "--requests", "20", "--json",
                                              "--slo-ttft-ms", "100000", "--slo-tpot-ms", "1e5"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const Json figures = Json::parse(result.out);
  EXPECT_EQ(figures["model"], "fake");
  EXPECT_EQ(figures["answered"], 20);
  EXPECT_EQ(figures["output_tokens"], 80);
  EXPECT_EQ(figures["good"], 20);
  EXPECT_EQ(figures["ttft_ms"]["count"], 20);
  EXPECT_EQ(figures["gap_ms"]["count"], 60);
  ASSERT_EQ(server.requests().size(), 20u);
  EXPECT_THAT(server.requests()[0].head, HasSubstr("Bearer secret"));
}

TEST(BenchServeTest, FailuresAreInTheTableAndAnErrorIfNothingSucceeds) {
  std::atomic<int> asked = 0;
  const FakeOpenAi half([&](const FakeRequest&) {
    return ++asked % 2 == 0 ? FakeAnswer{} : FakeAnswer{.status = 503, .body = "draining"};
  });
  const ProcessResult result = bench(half, {"--concurrency", "1", "--requests", "6"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("3 answered"));
  EXPECT_THAT(result.out, HasSubstr("3 x HTTP 503: draining"));
  const FakeOpenAi none([](const FakeRequest&) { return FakeAnswer{.status = 401}; });
  const ProcessResult refused = bench(none, {"--concurrency", "1", "--requests", "2"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.err, "lockstep: no request was answered\n");
  EXPECT_THAT(refused.out, HasSubstr("2 x HTTP 401"));
}

TEST(BenchServeTest, ATraceAndPromptsAreReadFromFiles) {
  const FakeOpenAi server([](const FakeRequest&) { return FakeAnswer{}; });
  TemporaryFolder folder;
  const std::string trace =
      folder.write("trace.jsonl",
                   "{\"at_s\": 0.02, \"prompt\": \"second\", \"max_tokens\": 2}\n"
                   "{\"at_s\": 0, \"prompt\": \"first\", \"max_tokens\": 3}\n");
  const ProcessResult played =
      run_lockstep({"bench", "serve", "--url", server.url(), "--trace", trace, "--json"});
  ASSERT_EQ(played.code, 0) << played.err;
  EXPECT_EQ(Json::parse(played.out)["output_tokens"], 5);
  const std::string prompts = folder.write("prompts.txt", "Count.\n");
  EXPECT_EQ(bench(server, {"--prompts", prompts, "--concurrency", "1", "--requests", "1"}).code, 0);
  EXPECT_EQ(server.requests().back().body["prompt"], "Count.");
}

TEST(BenchServeTest, CtrlCPrintsTheFiguresSoFar) {
  std::atomic<int> asked = 0;
  const FakeOpenAi server([&](const FakeRequest&) {
    return FakeAnswer{.fault = ++asked > 3 ? FakeFault::kSilence : FakeFault::kNone};
  });
  Process process({lockstep_binary(), "bench", "serve", "--url", server.url(), "--concurrency", "1",
                   "--output-tokens", "2"});
  ASSERT_TRUE(becomes_true([&] { return asked == 4; }));
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 130);
  EXPECT_THAT(process.out(), HasSubstr("3 answered"));
  EXPECT_THAT(process.out(), HasSubstr("1 requests were in flight"));
}

TEST(BenchServeTest, MoreRequestsThanDescriptorsAreFailuresAndNoHang) {
  const FakeOpenAi server([](const FakeRequest&) { return FakeAnswer{}; });
  const ProcessResult result =
      run_lockstep({"bench", "serve", "--url", server.url(), "--concurrency", "200", "--requests",
                    "400", "--output-tokens", "1", "--json"},
                   {.wrapper = with_descriptors(64)});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json figures = Json::parse(result.out);
  EXPECT_EQ(figures["requests"], 400);
  EXPECT_GT(figures["answered"], 0);
  EXPECT_EQ(
      figures["answered"].get<int>() + figures["failures"]["no connection"]["count"].get<int>(),
      400);
}

TEST(BenchServeTest, BadInputIsAnErrorOfOneLine) {
  TemporaryFolder folder;
  const std::string trace = folder.write("bad.jsonl", "{\"at_s\": 1}\n");
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "must have exactly one of --rate, --trace and --concurrency"},
      {{"--rate", "1", "--concurrency", "1"}, "must have exactly one of"},
      {{"--rate", "0"}, "--rate: must be a number from 1e-09 to 1e+06, found 0"},
      {{"--rate", "inf"}, "--rate: must be a number from 1e-09 to 1e+06, found inf"},
      {{"--rate", "x"}, "--rate"},
      {{"--concurrency", "0"}, "--concurrency: must be a whole number from 1 to 65536, found 0"},
      {{"--concurrency", "1", "--requests", "0"},
       "--requests: must be a whole number of 1 or more, found 0"},
      {{"--concurrency", "1", "--duration", "-1"},
       "--duration: must be a number from 1e-09 to 1e+06, found -1"},
      {{"--concurrency", "1", "--prompt-tokens", "9:3"}, "with 1 to 10000000 tokens"},
      {{"--concurrency", "1", "--endpoint", "images"},
       "--endpoint: must be completions or chat, found images"},
      {{"--concurrency", "1", "--extra-body", "[]"}, "--extra-body"},
      {{"--concurrency", "1", "--url", "https://host"}, "--url https://host"},
      {{"--concurrency", "1", "--url", "http://host.invalid"}, "host.invalid"},
      {{"--concurrency", "1", "--url", "http://127.0.0.1:9"}, "is a server running there?"},
      {{"--concurrency", "1", "--prompts", "/no/such/file"}, "/no/such/file"},
      {{"--trace", trace}, "bad.jsonl, line 1"},
      {{"--trace", trace, "--prompt-tokens", "3"}, "--prompt-tokens"},
      {{"--concurrency", "1", "surplus"}, "surplus"}};
  for (const auto& [arguments, named] : cases) {
    std::vector<std::string> all = {"bench", "serve"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const ProcessResult result = run_lockstep(all);
    EXPECT_EQ(result.code, 2) << named << "\n" << result.err;
    EXPECT_EQ(lines_said(result.err), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(named));
    EXPECT_EQ(result.out, "");
  }
}

TEST(BenchServeTest, TheDocumentationContainsTheHelp) {
  const std::string page = read_file(LOCKSTEP_SOURCE_DIR "/docs/bench-serve.md");
  std::string help = run_lockstep({"bench", "serve", "--help"}).out;
  help.resize(help.find("\nA latency begins"));  // The page words this differently.
  size_t lines = 0;
  for (size_t begin = 0, end; (end = help.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string line = help.substr(begin, end - begin);
    EXPECT_THAT(page, HasSubstr(line.empty() ? "\n" : "    " + line + "\n"));
    ++lines;
  }
  EXPECT_GT(lines, 20u);
}

TEST(BenchServeTest, BenchStillTakesAModel) {
  const std::string demo = LOCKSTEP_SOURCE_DIR "/demo";
  const ProcessResult result = run_lockstep(
      {"bench", demo, "--prompt-tokens", "4", "--output-tokens", "2", "--repeat", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("prefill"));
}

}  // namespace
}  // namespace lockstep::testing
