// SPDX-License-Identifier: Apache-2.0
// The log of `lockstep serve` and its workers as JSON.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/network/http_client.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

using Json = nlohmann::json;

constexpr char kTraceparent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

std::vector<Json> objects_in(const std::string& log) {
  std::vector<Json> objects;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(Json::accept(line)) << line;
    if (Json::accept(line)) objects.push_back(Json::parse(line));
  }
  return objects;
}

TEST(LogFormatTest, EveryJsonLineIsAnObjectAndEachRequestHasOne) {
  const TemporaryFolder folder;
  const std::string keys = folder.write("keys", "alice sk-0123456789abcdef\n");
  Server server(
      {"--workers", "2", "--log-format", "json", "--log-level", "info", "--api-keys", keys});
  const std::string body = R"({"prompt": "Once upon a secret", "max_tokens": 5})";
  HttpClient client(server.http_address());
  const std::string headers = "Authorization: Bearer sk-0123456789abcdef\r\n";
  client.send(http_request("POST", "/v1/completions",
                           headers + "traceparent: " + kTraceparent + "\r\n", body));
  EXPECT_EQ(client.read().status, 200);
  client.send(http_request("POST", "/v1/completions", headers + "traceparent: 00-no\r\n", body));
  EXPECT_EQ(client.read().status, 200);
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer sk-0123456789abcdef");
  context.AddMetadata("traceparent", kTraceparent);
  const auto reader = server.stub().Generate(&context, story(3, 1));
  for (v1::GenerateResponse response; reader->Read(&response);) {
  }
  EXPECT_TRUE(reader->Finish().ok());
  server.process().signal(SIGTERM);
  EXPECT_EQ(server.process().wait(), 0);

  const std::string log = server.process().err();
  EXPECT_EQ(log.find("secret"), std::string::npos) << log;
  std::vector<Json> requests;
  for (const Json& line : objects_in(log)) {
    EXPECT_TRUE(line.contains("time") && line.contains("level") && line.contains("message"));
    if (line["message"] == "request") requests.push_back(line);
  }
  ASSERT_EQ(requests.size(), 3u) << log;
  for (const Json& request : requests) {
    EXPECT_EQ(request["client"], "alice");
    EXPECT_EQ(request["status"], "OK");
    EXPECT_GE(request["total_ms"], request["ttft_ms"]);
    EXPECT_GE(request["ttft_ms"], request["queue_ms"]);
  }
  EXPECT_EQ(requests[0]["endpoint"], "/v1/completions");
  EXPECT_EQ(requests[0]["completion_tokens"], 5);
  EXPECT_EQ(requests[0]["traceparent"], kTraceparent);
  EXPECT_FALSE(requests[1].contains("traceparent"));
  EXPECT_GT(requests[1]["cached_tokens"].get<int>() + 1, 0);
  EXPECT_EQ(requests[2]["endpoint"], "/lockstep.v1.Generation/Generate");
  EXPECT_EQ(requests[2]["traceparent"], kTraceparent);
}

TEST(LogFormatTest, AClientWithoutAKeyIsLoggedByItsConnection) {
  Server server({"--log-format", "json", "--log-level", "info"});
  EXPECT_TRUE(server.generate(story(3, 1)).status.ok());
  server.process().signal(SIGTERM);
  EXPECT_EQ(server.process().wait(), 0);
  std::string client;
  for (const Json& line : objects_in(server.process().err())) {
    if (line["message"] == "request") client = line["client"];
  }
  EXPECT_TRUE(client.starts_with("127.0.0.1:")) << client;
}

// The log goes to a pipe. After the server is ready the test reads no more from the pipe, so it is
// full after about 200 lines.
TEST(LogFormatTest, AnUnreadLogDelaysNeitherRequestsNorTheEnd) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/log";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reading = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  Process server({lockstep_binary(), "serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0",
                  "--log-level", "info"},
                 {.wrapper = {"/bin/sh", "-c", "exec \"$@\" 2> " + path, "sh"}});
  std::string log;
  EXPECT_TRUE(becomes_true([&] {
    std::array<char, 4096> bytes;
    const ssize_t got = read(reading, bytes.data(), bytes.size());
    if (got > 0) log.append(bytes.data(), static_cast<size_t>(got));
    return log.find("ready;") != std::string::npos;
  }));
  const size_t at = log.find("HTTP at ") + 8;
  HttpClient client(log.substr(at, log.find(',', at) - at));
  for (int i = 0; i < 400; ++i) {
    const HttpAnswer answer = client.post("/v1/completions", R"({"prompt": "a", "max_tokens": 1})");
    ASSERT_EQ(answer.status, 200) << i;
  }
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
  close(reading);
}

}  // namespace
}  // namespace lockstep::testing
