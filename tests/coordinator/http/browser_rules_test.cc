// SPDX-License-Identifier: Apache-2.0
// The Host headers that are served, the origins whose pages may call, and the answers that pages of
// other origins may read.
#include "coordinator/http/browser_rules.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <array>

#include "base/status.h"
#include "tests/coordinator/http/scripted_server.h"
#include "tests/support/network/fake_exchange.h"

namespace lockstep::http {
namespace {

using testing::FakeExchange;

std::string header(const Response& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

Response ask(const BrowserRules& rules, const Headers& headers,
             const std::string& method = "POST") {
  const Handler handler = with_browser_rules(rules, [](const std::shared_ptr<Exchange>& exchange) {
    exchange->respond({.status = 200, .headers = {}, .body = "the answer"});
  });
  const auto exchange = std::make_shared<FakeExchange>(method, "/v1/models", "", headers);
  handler(exchange);
  return exchange->wait();
}

const BrowserRules kLocal = {.keyless = true};

TEST(BrowserRulesTest, NamesOfThisMachineAreServed) {
  for (const char* host : {"localhost", "LOCALHOST:8000", "127.0.0.1:8000", "127.1.2.3", "[::1]",
                           "[::1]:8000", "chat.localhost:8000"}) {
    EXPECT_EQ(ask(kLocal, {{"Host", host}}).status, 200) << host;
  }
  EXPECT_EQ(ask(kLocal, {}).status, 200) << "HTTP/1.0";
}

// /etc/hosts often maps the host's own name to 127.0.1.1.
TEST(BrowserRulesTest, TheHostsOwnNameIsServed) {
  std::array<char, 256> name = {};
  ASSERT_EQ(gethostname(name.data(), name.size() - 1), 0);
  EXPECT_EQ(ask(kLocal, {{"Host", std::string(name.data()) + ":8000"}}).status, 200);
}

// The server does not know the names that other machines have for this one.
TEST(BrowserRulesTest, RequestsFromOtherMachinesAreNotChecked) {
  const auto exchange = std::make_shared<FakeExchange>(
      "POST", "/v1/models", "", Headers{{"Host", "lockstep"}, {"Origin", "http://chat"}});
  exchange->come_from_another_machine();
  with_browser_rules(kLocal, [](const std::shared_ptr<Exchange>& one) {
    one->respond({.status = 200});
  })(exchange);
  EXPECT_EQ(exchange->wait().status, 200);
}

// An attacker may point the host name of his page to 127.0.0.1 while the page runs (DNS rebinding).
TEST(BrowserRulesTest, OtherHostNamesAre403AndTheErrorNamesTheFlag) {
  for (const char* host : {"evil.example:8000", "10.0.0.1", "localhost.evil.example", "[::2]:1",
                           "127.0.0.1.evil.example", "evil-localhost", "[::1]evil.example", "[::1",
                           "localhost:evil.example", "[::1]:80evil"}) {
    EXPECT_EQ(ask(kLocal, {{"Host", host}}).status, 403) << host;
  }
  const Response refused = ask(kLocal, {{"Host", "evil.example:8000"}});
  EXPECT_NE(refused.body.find("--allow-host evil.example"), std::string::npos) << refused.body;
  const BrowserRules proxied = {.keyless = true, .hosts = {"chat.example.com"}};
  EXPECT_EQ(ask(proxied, {{"Host", "Chat.Example.com:443"}}).status, 200);
  EXPECT_EQ(ask(proxied, {{"Host", "evil.example"}}).status, 403);
}

TEST(BrowserRulesTest, PagesOfOtherOriginsAre403AndTheErrorNamesTheFlag) {
  const std::string host = "127.0.0.1:8000";
  EXPECT_EQ(ask(kLocal, {{"Host", host}, {"Origin", "http://127.0.0.1:8000"}}).status, 200);
  for (const char* origin : {"https://evil.example", "null", "http://127.0.0.1:9000", "x"}) {
    EXPECT_EQ(ask(kLocal, {{"Host", host}, {"Origin", origin}}).status, 403) << origin;
  }
  const Response refused = ask(kLocal, {{"Host", host}, {"Origin", "https://evil.example"}});
  EXPECT_NE(refused.body.find("--allow-origin https://evil.example"), std::string::npos);
  EXPECT_EQ(header(refused, "Access-Control-Allow-Origin"), "");
  const Response closed =
      ask({.keyless = true, .shares = false}, {{"Host", host}, {"Origin", "https://evil.example"}});
  EXPECT_EQ(closed.body.find("--allow-origin"), std::string::npos) << closed.body;
}

const Headers kClick = {{"Sec-Fetch-User", "?1"}};

// Browsers send no Origin with requests for images, scripts and frames.
TEST(BrowserRulesTest, OtherSitesCannotEmbedAnswersButMayLinkToThem) {
  const auto send = [](const BrowserRules& rules, const char* site, const char* mode,
                       const char* destination, const char* method = "GET", Headers more = kClick) {
    more.insert(more.end(), {{"Host", "localhost"},
                             {"Sec-Fetch-Site", site},
                             {"Sec-Fetch-Mode", mode},
                             {"Sec-Fetch-Dest", destination}});
    return ask(rules, more, method);
  };
  for (const char* site : {"cross-site", "same-site"}) {
    const Response refused = send(kLocal, site, "no-cors", "image");
    EXPECT_EQ(refused.status, 403) << site;
    EXPECT_NE(refused.body.find(fmt::format("found {}", site)), refused.body.npos) << refused.body;
    EXPECT_EQ(send(kLocal, site, "navigate", "iframe").status, 403) << site;
    EXPECT_EQ(send(kLocal, site, "navigate", "document", "POST").status, 403) << site;
    EXPECT_EQ(send(kLocal, site, "navigate", "document").status, 200) << site;
    EXPECT_EQ(send(kLocal, site, "navigate", "document", "GET", {}).status, 403) << "by a script";
    const Headers ahead = {kClick[0], {"Sec-Purpose", "prefetch;prerender"}};
    EXPECT_EQ(send(kLocal, site, "navigate", "document", "GET", ahead).status, 403) << site;
    EXPECT_EQ(send({.keyless = true, .origins = {"*"}}, site, "no-cors", "image").status, 200);
    EXPECT_EQ(send({.keyless = false}, site, "no-cors", "image").status, 200) << site;
  }
  EXPECT_EQ(send(kLocal, "same-origin", "cors", "empty").status, 200);
  EXPECT_EQ(send(kLocal, "none", "navigate", "document").status, 200);
}

TEST(BrowserRulesTest, AllowedOriginsMayCallAndRead) {
  const BrowserRules rules = {.keyless = true, .origins = {"https://chat.example.com"}};
  const Headers page = {{"Host", "localhost:8000"}, {"Origin", "https://chat.example.com"}};
  const Response answer = ask(rules, page);
  EXPECT_EQ(answer.body, "the answer");
  EXPECT_EQ(header(answer, "Access-Control-Allow-Origin"), "https://chat.example.com");
  EXPECT_EQ(header(answer, "Vary"), "Origin");
  EXPECT_EQ(header(ask(rules, {{"Host", "localhost"}}), "Access-Control-Allow-Origin"), "");
  EXPECT_EQ(ask(rules, {{"Host", "localhost"}, {"Origin", "https://evil.example"}}).status, 403);
  const BrowserRules any = {.keyless = true, .origins = {"*"}};
  EXPECT_EQ(header(ask(any, page), "Access-Control-Allow-Origin"), "*");
}

TEST(BrowserRulesTest, PreflightsOfAllowedOriginsAreAnswered) {
  const BrowserRules rules = {.keyless = true, .origins = {"https://chat.example.com"}};
  Headers headers = {{"Host", "localhost:8000"},
                     {"Origin", "https://chat.example.com"},
                     {"Access-Control-Request-Method", "POST"},
                     {"Access-Control-Request-Headers", "authorization, x-stainless-os"}};
  const Response answer = ask(rules, headers, "OPTIONS");
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.body, "");
  EXPECT_EQ(header(answer, "Access-Control-Allow-Headers"), "authorization, x-stainless-os");
  EXPECT_NE(header(answer, "Access-Control-Allow-Methods").find("POST"), std::string::npos);
  headers[1].second = "https://evil.example";
  EXPECT_EQ(ask(rules, headers, "OPTIONS").status, 403);
}

// Without `keyless` any Host is served, but pages of other origins may not read the answers.
TEST(BrowserRulesTest, PortsWithKeysServeAnyHostNameAndOnlyAllowedOriginsReadAnswers) {
  const Headers page = {{"Host", "chat.example.com"}, {"Origin", "https://evil.example"}};
  const Response answer = ask({}, page);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(header(answer, "Access-Control-Allow-Origin"), "");
  const Response shared = ask({.origins = {"https://evil.example"}}, page);
  EXPECT_EQ(header(shared, "Access-Control-Allow-Origin"), "https://evil.example");
}

TEST(BrowserRulesTest, ValuesOfTheFlagsAreChecked) {
  EXPECT_TRUE(check({.hosts = {"chat.example.com"}, .origins = {"https://a.b", "*"}}).ok());
  for (const char* host : {"", "https://a.b", "a:80", "*"}) {
    EXPECT_NE(message_of(check({.hosts = {host}})).find("--allow-host"), std::string::npos) << host;
  }
  for (const char* origin : {"", "a.b", "https://a.b/", "https://"}) {
    EXPECT_NE(message_of(check({.origins = {origin}})).find("--allow-origin"), std::string::npos)
        << origin;
  }
}

// Without these headers a browser does not show the answer to its page.
TEST(BrowserRulesTest, ARefusalBeforeTheHandlerHasCorsHeaders) {
  const Gate gate = [](const Request&) -> Admission {
    return {.refusal = Refusal{.status = 401, .code = "invalid_api_key", .message = "no API key"}};
  };
  const BrowserRules rules = {.origins = {"https://chat.example.com"}};
  ScriptedServer server(
      ServerOptions{.max_connections = 10, .gate = gate, .page_headers = page_headers_of(rules)});
  const auto ask = [&](const std::string& origin, int64_t bytes) {
    HttpClient client(server.address());
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nOrigin: " + origin +
                "\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\nbegin");
    return client.read();
  };
  for (const auto& [bytes, status] : {std::pair(1000, 401), {100'000'000, 413}}) {
    const HttpAnswer shown = ask("https://chat.example.com", bytes);
    EXPECT_EQ(shown.status, status);
    ASSERT_TRUE(shown.headers.contains("access-control-allow-origin")) << status;
    EXPECT_EQ(shown.headers.at("access-control-allow-origin"), "https://chat.example.com");
    EXPECT_FALSE(
        ask("https://evil.example", bytes).headers.contains("access-control-allow-origin"));
  }
}

// A browser on this machine also reaches a port that is bound to every address.
TEST(BrowserRulesTest, APortOnEveryAddressCountsAsLocalForLoopbackClients) {
  const Handler handler = [](const std::shared_ptr<Exchange>& exchange) {
    exchange->respond({.body = exchange->request().on_loopback ? "local" : "remote"});
  };
  auto server = Server::start({.address = "0.0.0.0:0", .max_connections = 10},
                              with_browser_rules({.keyless = true}, handler));
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string port = (*server)->address().substr((*server)->address().rfind(':'));
  const auto ask = [&](const std::string& host, const std::string& name) {
    HttpClient client(host + port);
    client.send("GET / HTTP/1.1\r\nHost: " + name + "\r\n\r\n");
    return client.read();
  };
  EXPECT_EQ(ask("127.0.0.1", "evil.example").status, 403);
  EXPECT_EQ(ask("127.0.0.1", "localhost").body, "local");
  ifaddrs* all = nullptr;
  ASSERT_EQ(getifaddrs(&all), 0);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_LOOPBACK) != 0 || (one->ifa_flags & IFF_UP) == 0) continue;
    char text[INET_ADDRSTRLEN] = {};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text,
              sizeof text);
    EXPECT_EQ(ask(text, "lockstep").body, "remote") << text;
  }
  freeifaddrs(all);
}

}  // namespace
}  // namespace lockstep::http
