// SPDX-License-Identifier: Apache-2.0
// The operator's port of `lockstep serve`: what it serves, and who can reach it.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/network/http_client.h"
#include "tests/support/network/tls_client.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

// --allow-origin lets pages call the API, which can require keys. It must not let pages call this
// port, which requires no key.
TEST(AdminPortTest, PagesOfOtherOriginsCannotCallThisPort) {
  Server server({"--admin", "127.0.0.1:0", "--allow-origin", "*"});
  const std::string origin = "Origin: https://chat.example.com\r\n";
  HttpClient admin(server.admin_address());
  admin.send(http_request("PUT", "/log-level?level=debug", origin));
  const HttpAnswer refused = admin.read();
  EXPECT_EQ(refused.status, 403);
  EXPECT_FALSE(refused.headers.contains("access-control-allow-origin"));
  HttpClient api(server.http_address());
  api.send(http_request("GET", "/v1/models", origin));
  EXPECT_EQ(api.read().headers["access-control-allow-origin"], "*");
}

TEST(AdminPortTest, ThePortHasMetricsAndProbesButNotTheApi) {
  Server server({"--admin", "127.0.0.1:0"});
  HttpClient client(server.admin_address());
  EXPECT_NE(client.get("/metrics").body.find("lockstep:ready{"), std::string::npos);
  EXPECT_EQ(client.get("/cluster").status, 200);
  EXPECT_EQ(client.get("/readyz").status, 200);
  EXPECT_EQ(client.get("/").status, 404);
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt": "Once"})").status, 404);
}

TEST(AdminPortTest, TheLogLevelCanBeChanged) {
  Server server({"--admin", "127.0.0.1:0"});
  HttpClient client(server.admin_address());
  EXPECT_EQ(client.get("/log-level").body, R"({"level":"warning"})");
  EXPECT_TRUE(server.generate(story(1, 1)).status.ok());
  client.send(http_request("PUT", "/log-level?level=info"));
  EXPECT_EQ(client.read().body, R"({"level":"info"})");
  EXPECT_EQ(server.process().err().find("request {"), std::string::npos);
  EXPECT_TRUE(server.generate(story(1, 1)).status.ok());
  EXPECT_TRUE(server.process().wait_for_err("[info] request {")) << server.process().err();
  HttpClient(server.http_address()).post("/v1/completions", "{");
  EXPECT_FALSE(server.generate({}).status.ok());
  for (const char* endpoint : {"/v1/completions", "/lockstep.v1.Generation/Generate"}) {
    const std::string line =
        fmt::format(R"("endpoint":"{}","status":"INVALID_ARGUMENT","refused":true)", endpoint);
    EXPECT_TRUE(server.process().wait_for_err(line)) << server.process().err();
  }
  for (const char* bad : {"", "?level=", "?level=loud", "?loud=info"}) {
    client.send(http_request("PUT", std::string("/log-level") + bad));
    EXPECT_EQ(client.read().status, 400) << bad;
  }
}

TEST(AdminPortTest, ThePortListsTheWorkers) {
  Server server({"--workers", "2", "--admin", "127.0.0.1:0"});
  const nlohmann::json answer =
      nlohmann::json::parse(HttpClient(server.admin_address()).get("/workers").body);
  ASSERT_EQ(answer["workers"].size(), 2u);
  const std::vector<pid_t> pids = server.workers();
  for (int rank = 0; rank < 2; ++rank) {
    const nlohmann::json& worker = answer["workers"][rank];
    EXPECT_EQ(worker["rank"], rank);
    EXPECT_EQ(worker["role"], "serving");
    EXPECT_EQ(std::ranges::count(pids, worker["pid"].get<pid_t>()), 1);
    EXPECT_GT(worker["weight_bytes"].get<int64_t>(), 0);
    EXPECT_GE(worker["joined_ms"].get<int64_t>(), worker["heard_ms"].get<int64_t>());
  }
  const std::string& admin = server.admin_address();
  const ProcessResult table = run_lockstep({"workers", "--admin", admin});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_EQ(std::ranges::count(table.out, '\n'), 3) << table.out;
  EXPECT_NE(table.out.find("serving"), std::string::npos) << table.out;
  const ProcessResult json = run_lockstep({"workers", "--admin", admin, "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["workers"].size(), 2u) << json.out;
}

TEST(AdminPortTest, ListingWorkersAtAWrongPortGivesAHelpfulError) {
  Server server;
  const std::string api = "http://" + server.http_address();
  const ProcessResult other_port = run_lockstep({"workers", "--admin", api});
  EXPECT_EQ(other_port.code, 2);
  EXPECT_EQ(other_port.err,
            "lockstep: " + api +
                "/workers: HTTP 404 (--admin must be the operator's port: `lockstep "
                "serve --admin ...`)\n");
  const ProcessResult nobody = run_lockstep({"workers", "--admin", "http://127.0.0.1:1"});
  EXPECT_EQ(nobody.code, 2);
  EXPECT_NE(nobody.err.find("is a server running there"), std::string::npos) << nobody.err;
}

TEST(AdminPortTest, ThePortIsOffByDefault) {
  Server server;
  EXPECT_EQ(server.admin_address(), "");
}

TEST(AdminPortTest, ThePortNeedsNoKey) {
  const TemporaryFolder folder;
  const std::string keys = folder.write("keys", "alice sk-0123456789abcdef\n");
  Server server({"--admin", "127.0.0.1:0", "--api-keys", keys});
  EXPECT_EQ(HttpClient(server.http_address()).get("/metrics").status, 401);
  EXPECT_EQ(HttpClient(server.admin_address()).get("/metrics").status, 200);
}

TEST(AdminPortTest, OffLoopbackThePortRequiresClientCertificates) {
  const auto refused = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"serve", "--admin", "0.0.0.0:0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = run_lockstep(arguments);
    return result.code == 2 && result.err.find("--insecure admin") != std::string::npos;
  };
  const Authority authority;
  const Authority::Identity identity = authority.sign("server");
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({"--tls-cert", identity.cert, "--tls-key", identity.key}));

  const Server insecure({"--admin", "0.0.0.0:0", "--insecure", "admin"});
  EXPECT_NE(insecure.admin_address(), "");
  Server server({"--admin", "127.0.0.1:0", "--tls-cert", identity.cert, "--tls-key", identity.key,
                 "--tls-ca", authority.path()});
  const std::string metrics = http_request("GET", "/metrics");
  TlsClient stranger(server.admin_address(), {.ca = authority.path()});
  EXPECT_EQ(stranger.request(metrics), "");
  TlsClient known(server.admin_address(),
                  {.ca = authority.path(), .identity = authority.sign("operator")});
  EXPECT_TRUE(known.request(metrics).starts_with("HTTP/1.1 200"));

  const std::string url = "https://" + server.admin_address();
  const Authority::Identity own = authority.sign("another");
  const auto workers = [&](const std::string& ca, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"workers", "--admin", url, "--ca", ca};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_lockstep(arguments);
  };
  const ProcessResult listed = workers(authority.path(), {"--cert", own.cert, "--key", own.key});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_EQ(std::ranges::count(listed.out, '\n'), 2) << listed.out;
  EXPECT_EQ(workers(authority.path(), {}).code, 2) << "the server requires a certificate";
  const Authority others;
  EXPECT_EQ(workers(others.path(), {"--cert", own.cert, "--key", own.key}).code, 2);
}

TEST(AdminPortTest, ThePortStaysOpenWhileTheServerDrains) {
  Server server({"--admin", "127.0.0.1:0"});
  HttpClient client(server.admin_address());
  const LongCall call(server);
  server.process().signal(SIGTERM);
  EXPECT_TRUE(server.process().wait_for_err("ending;"));
  EXPECT_NE(client.get("/metrics").body.find("lockstep:ready{"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::testing
