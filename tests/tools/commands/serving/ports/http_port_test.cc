// SPDX-License-Identifier: Apache-2.0
// The HTTP port of `lockstep serve` as probes and clients see it.
#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "base/system/descriptors.h"
#include "coordinator/page/page.h"
#include "tests/support/network/http_client.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

nlohmann::json json_of(const HttpAnswer& answer) {
  EXPECT_EQ(answer.headers.at("content-type"), "application/json");
  return nlohmann::json::parse(answer.body);
}

TEST(HttpPortTest, ProbesAreAnswered) {
  Server server;
  HttpClient client(server.http_address());
  for (const char* path : {"/health", "/livez", "/ping", "/readyz"}) {
    const HttpAnswer answer = client.get(path);
    EXPECT_EQ(answer.status, 200) << path;
    EXPECT_EQ(json_of(answer).at("status"), "ok") << path;
  }
  EXPECT_EQ(json_of(client.get("/version")).at("version"), server.model().version());
  EXPECT_EQ(client.get("/nothing").status, 404);
  EXPECT_EQ(client.post("/health", "{}").headers.at("allow"), "GET, HEAD, OPTIONS");
}

TEST(HttpPortTest, ThePageNeedsNoKey) {
  const TemporaryFolder folder;
  const Server server({"--api-keys", folder.write("keys", "a sk-0123456789abcdef\n")});
  HttpClient client(server.http_address());
  for (const PageFile& file : page_files()) {
    const HttpAnswer answer = client.get(std::string(file.path));
    EXPECT_EQ(answer.status, 200) << file.path;
    EXPECT_EQ(answer.body, file.bytes) << file.path;
  }
  EXPECT_EQ(client.get("/nothing").status, 401);
}

// The page's paths are like any unknown path: each method gets 404.
TEST(HttpPortTest, WithNoPageOnlyThePageIsMissing) {
  Server server({"--admin", "127.0.0.1:0"}, {.environment = {{"LOCKSTEP_NO_PAGE", "true"}}});
  HttpClient client(server.http_address());
  for (const PageFile& file : page_files()) {
    const std::string path(file.path);
    const HttpAnswer answer = client.get(path);
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_EQ(json_of(answer).at("error").at("message"), "there is no path " + path);
    EXPECT_EQ(client.post(path, "{}").status, 404) << path;
  }
  for (const char* path : {"/v1/models", "/readyz", "/metrics", "/cluster"}) {
    EXPECT_EQ(client.get(path).status, 200) << path;
  }
  const HttpAnswer answer =
      client.post("/v1/completions", R"({"prompt": "Once", "max_tokens": 1})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(HttpClient(server.admin_address()).get("/workers").status, 200);
}

TEST(HttpPortTest, WithNoPageItsPathsNeedAKeyAsUnknownPathsDo) {
  const TemporaryFolder folder;
  const Server server({"--no-page", "--api-keys", folder.write("keys", "a sk-0123456789abcdef\n")});
  HttpClient client(server.http_address());
  for (const PageFile& file : page_files()) {
    const std::string path(file.path);
    EXPECT_EQ(client.get(path).status, 401) << path;
    client.send(http_request("GET", path, "Authorization: Bearer sk-0123456789abcdef\r\n"));
    EXPECT_EQ(client.read().status, 404) << path;
  }
}

TEST(HttpPortTest, AServerWithoutAGroupIsAliveButNotReady) {
  Process server({lockstep_binary(), "serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0",
                  "--cluster", "127.0.0.1:0", "--wait-workers", "1"},
                 {.environment = {{"LOCKSTEP_JOIN_TOKEN", "sesame, open please"}}});
  ASSERT_TRUE(server.wait_for_err("HTTP at ")) << server.err();
  const std::string err = server.err();
  const size_t at = err.find("HTTP at ") + 8;
  HttpClient client(err.substr(at, err.find(',', at) - at));
  EXPECT_EQ(client.get("/livez").status, 200);
  EXPECT_EQ(client.get("/health").status, 503);
  EXPECT_EQ(client.get("/ping").status, 503);
  const HttpAnswer answer = client.get("/readyz");
  EXPECT_EQ(answer.status, 503);
  EXPECT_TRUE(answer.headers.contains("retry-after"));
  EXPECT_NE(json_of(answer).at("reason").get<std::string>().find("no complete group"),
            std::string::npos)
      << answer.body;
}

TEST(HttpPortTest, HttpOffOpensNoHttpPort) {
  Process server({lockstep_binary(), "serve", "--grpc", "127.0.0.1:0", "--http", "off"});
  EXPECT_TRUE(server.wait_for_err("ready;")) << server.err();
  EXPECT_EQ(server.err().find("HTTP"), std::string::npos) << server.err();
}

TEST(HttpPortTest, HttpServesAloneIfGrpcIsOff) {
  Process server({lockstep_binary(), "serve", "--grpc", "off", "--http", "127.0.0.1:0",
                  "--served-model-name", "team/story"});
  ASSERT_TRUE(server.wait_for_err("ready;")) << server.err();
  const std::string err = server.err();
  EXPECT_EQ(err.find("gRPC"), std::string::npos) << err;
  const size_t at = err.find("HTTP at ") + 8;
  HttpClient client(err.substr(at, err.find(',', at) - at));
  const HttpAnswer answer = client.post(
      "/v1/completions", R"({"prompt": "Once", "max_tokens": 1, "model": "team/story"})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json_of(answer).at("model"), "team/story");
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.err();
}

// Sends a prompt over a new connection and returns how many of its tokens were cached.
int cached_tokens(const Server& server, const std::string& headers) {
  std::string prompt;
  for (int i = 0; i < 20; ++i) prompt += "Once upon a time there was a fox. ";
  const nlohmann::json body = {{"prompt", prompt}, {"max_tokens", 1}};
  HttpClient client(server.http_address());
  client.send(http_request("POST", "/v1/completions", headers, body.dump()));
  const nlohmann::json usage = json_of(client.read()).at("usage");
  return usage.at("prompt_tokens_details").at("cached_tokens").get<int>();
}

TEST(HttpPortTest, WithoutKeysConnectionsShareThePrefixCache) {
  const Server server;
  EXPECT_EQ(cached_tokens(server, ""), 0);
  EXPECT_GT(cached_tokens(server, ""), 0);
}

TEST(HttpPortTest, AKeyFindsOnlyItsOwnCachedPrefixes) {
  const TemporaryFolder folder;
  const Server server(
      {"--api-keys", folder.write("keys", "a sk-0123456789abcdef\nb sk-fedcba9876543210\n")});
  const std::string a = "Authorization: Bearer sk-0123456789abcdef\r\n";
  const std::string b = "Authorization: Bearer sk-fedcba9876543210\r\n";
  EXPECT_EQ(cached_tokens(server, a), 0);
  EXPECT_EQ(cached_tokens(server, b), 0);
  EXPECT_GT(cached_tokens(server, a), 0);
}

// The server refuses the requests before their bodies are complete. These answers also need the
// CORS header.
TEST(HttpPortTest, APageOfAnAllowedOriginCanReadWhyItWasRefused) {
  const TemporaryFolder folder;
  Server server({"--api-keys", folder.write("keys", "a sk-0123456789abcdef\n"), "--allow-origin",
                 "https://chat.example.com"});
  for (const std::string page : {"https://chat.example.com", "https://evil.example"}) {
    HttpClient client(server.http_address());
    client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nOrigin: " + page +
                "\r\n\r\n{");
    const HttpAnswer refused = client.read();
    EXPECT_EQ(refused.status, 401);
    EXPECT_EQ(refused.headers.contains("access-control-allow-origin"),
              page == "https://chat.example.com");
  }
}

TEST(HttpPortTest, NoPortAtAllIsRefused) {
  const ProcessResult result = run_lockstep({"serve", "--grpc", "off", "--http", "off"});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("--grpc and --http: must not both be off"), std::string::npos)
      << result.err;
}

TEST(HttpPortTest, SigtermMakesItNotReadyClosesIdleConnectionsAndThenEnds) {
  Server server;
  HttpClient idle(server.http_address());
  EXPECT_EQ(idle.get("/readyz").status, 200);
  LongCall call(server);

  server.process().signal(SIGTERM);
  EXPECT_TRUE(idle.ends());
  HttpClient probe(server.http_address());
  const HttpAnswer answer = probe.get("/readyz");
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.body.find("draining"), std::string::npos) << answer.body;
  EXPECT_TRUE(probe.ends());
  EXPECT_TRUE(call.finish().ok());
  EXPECT_EQ(server.process().wait(), 0) << server.process().err();
}

TEST(HttpPortTest, AFloodOfConnectionsLeavesBothPortsServing) {
  raise_descriptor_limit();
  Server server({}, {.wrapper = with_descriptors(100)});
  EXPECT_TRUE(server.model().ready());
  {
    std::vector<HttpClient> flood;
    flood.reserve(300);
    for (int i = 0; i < 300; ++i) flood.emplace_back(server.http_address());
    EXPECT_TRUE(flood.back().ends());
    EXPECT_TRUE(server.generate(story(5, 1)).status.ok());
  }
  EXPECT_TRUE(becomes_true([&] {
    HttpClient client(server.http_address());
    return client.get("/readyz").status == 200;
  }));
}

}  // namespace
}  // namespace lockstep::testing
