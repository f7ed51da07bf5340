// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/router.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace lockstep::http {
namespace {

// An exchange that records its answer.
class RecordedExchange final : public Exchange {
 public:
  RecordedExchange(const std::string& method, const std::string& path) {
    request_.method = method;
    request_.path = path;
  }
  const Request& request() const override { return request_; }
  void respond(Response response) override { answer = std::move(response); }
  void stream(Response head, std::unique_ptr<BodySource>) override { answer = std::move(head); }
  void wake() override {}
  std::function<void()> waker() override {
    return [] {};
  }
  void on_gone(std::function<void()>) override {}

  Response answer;

 private:
  Request request_;
};

Handler says(const std::string& text) {
  return [text](const std::shared_ptr<Exchange>& exchange) { exchange->respond({.body = text}); };
}

const Router& router() {
  static const Router router({
      {"GET", "/v1/models", says("models")},
      {"POST", "/v1/models", says("make")},
      {"GET", "/v1/models/{model}",
       [](auto exchange, const PathParameters& parameters) {
         exchange->respond({.body = parameters[0].first + "=" + parameters[0].second});
       }},
      {"POST", "/v1/chat", says("chat")},
      {"GET", "/", says("page")},
  });
  return router;
}

Response ask(const std::string& method, const std::string& path) {
  const auto exchange = std::make_shared<RecordedExchange>(method, path);
  router()(exchange);
  return exchange->answer;
}

std::string header(const Response& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST(RouterTest, MethodAndPathFindTheHandler) {
  EXPECT_EQ(ask("GET", "/v1/models").body, "models");
  EXPECT_EQ(ask("POST", "/v1/models").body, "make");
  EXPECT_EQ(ask("GET", "/").body, "page");
  EXPECT_EQ(ask("HEAD", "/v1/models").body, "models");  // The server drops the body.
}

TEST(RouterTest, ASegmentInBracesMatchesAnyNonEmptyOne) {
  EXPECT_EQ(ask("GET", "/v1/models/llama-2.7b").body, "model=llama-2.7b");
  EXPECT_EQ(ask("GET", "/v1/models/a/b").status, 404);
}

TEST(RouterTest, SlashesAndTheVersionMayBeLeftOutOrDoubled) {
  for (const char* path :
       {"/v1/models/", "//v1/models", "/v1//models", "/models", "/models//", "/v1/v1/models"}) {
    EXPECT_EQ(ask("GET", path).body, "models") << path;
  }
  EXPECT_EQ(ask("GET", "//").body, "page");
  EXPECT_EQ(ask("GET", "/models/a").body, "model=a");
  EXPECT_EQ(header(ask("GET", "/chat"), "Allow"), "POST, OPTIONS");
}

TEST(RouterTest, AnUnknownPathIs404InOpenAIsForm) {
  for (const char* path : {"/v1/model", "/v1/models/x/y", "/v1", "/v1/chatty/", "*"}) {
    const Response answer = ask("GET", path);
    if (std::string(path) == "*") continue;
    EXPECT_EQ(answer.status, 404) << path;
    const auto json = parse_json(answer.body, "answer");
    ASSERT_TRUE(json.ok()) << answer.body;
    const Json& error = json->at("error");
    EXPECT_EQ(error.at("code"), "not_found");
    EXPECT_EQ(error.at("type"), "invalid_request_error");
    EXPECT_TRUE(error.at("param").is_null());
    EXPECT_NE(error.at("message").get<std::string>().find(path), std::string::npos);
  }
}

TEST(RouterTest, AnotherMethodIs405AndNamesThoseThatAreAllowed) {
  EXPECT_EQ(ask("DELETE", "/v1/models").status, 405);
  EXPECT_EQ(header(ask("DELETE", "/v1/models"), "Allow"), "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(header(ask("GET", "/v1/chat"), "Allow"), "POST, OPTIONS");
  EXPECT_EQ(ask("BREW", "/v1/chat").status, 405);
  EXPECT_EQ(ask("HEAD", "/v1/chat").status, 405);
}

TEST(RouterTest, OptionsNamesTheMethods) {
  EXPECT_EQ(ask("OPTIONS", "/v1/chat").status, 204);
  EXPECT_EQ(header(ask("OPTIONS", "/v1/chat"), "Allow"), "POST, OPTIONS");
  EXPECT_EQ(header(ask("OPTIONS", "*"), "Allow"), "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(ask("OPTIONS", "/nothing").status, 404);
}

TEST(RouterTest, TheTableCanBeListed) {
  ASSERT_EQ(router().routes().size(), 5u);
  EXPECT_EQ(router().routes()[2].path, "/v1/models/{model}");
}

}  // namespace
}  // namespace lockstep::http
