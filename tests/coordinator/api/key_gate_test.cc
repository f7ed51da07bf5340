// SPDX-License-Identifier: Apache-2.0
// The gate that checks API keys before HTTP's handlers run.
#include "coordinator/api/key_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/files/temp_folder.h"
#include "tests/support/network/fake_exchange.h"

namespace lockstep {
namespace {

using testing::FakeExchange;

constexpr const char* kKey = "sk-0123456789abcdef";

// A body of one byte, which can be read after the test has set `*ready`.
class GatedSource final : public http::BodySource {
 public:
  explicit GatedSource(const std::atomic<bool>* ready) : ready_(ready) {}
  State read(std::string* bytes) override {
    if (!*ready_) return State::kMore;
    *bytes += "x";
    return State::kEnd;
  }

 private:
  const std::atomic<bool>* const ready_;
};

class KeyGateTest : public ::testing::Test {
 protected:
  KeyGateTest() {
    const std::string path = folder_.path() / "keys";
    std::ofstream(path) << "alice " << kKey << " requests=1\n";
    auto keys = ApiKeys::load(path);
    EXPECT_TRUE(keys.ok()) << keys.status();
    keys_ = *std::move(keys);
    gate_ = with_keys(
        keys_.get(), {"/readyz"}, "/v1/streams/",
        [this](std::shared_ptr<http::Exchange> exchange) { held_.push_back(std::move(exchange)); });
  }
  std::shared_ptr<FakeExchange> call(const std::string& path, const std::string& authorization) {
    auto exchange = std::make_shared<FakeExchange>("GET", path, "",
                                                   http::Headers{{"authorization", authorization}});
    gate_(exchange);
    return exchange;
  }

  TempFolder folder_;
  std::unique_ptr<ApiKeys> keys_;
  http::Handler gate_;
  std::vector<std::shared_ptr<http::Exchange>> held_;  // Exchanges that reached the handler.
};

// A source without an end.
class EndlessSource final : public http::BodySource {
 public:
  State read(std::string* bytes) override {
    *bytes += "x";
    return State::kMore;
  }
};

TEST_F(KeyGateTest, ARequestWithoutAKeyGetsAnErrorWithACode) {
  const auto exchange = call("/v1/models", "Bearer nothing");
  EXPECT_TRUE(held_.empty());
  const http::Response response = exchange->wait();
  EXPECT_EQ(response.status, 401);
  EXPECT_EQ(nlohmann::json::parse(response.body)["error"]["code"], "invalid_api_key");
}

TEST_F(KeyGateTest, ARequestMustHaveOneAuthorization) {
  const std::string bearer = std::string("Bearer ") + kKey;
  for (const std::string& other : {bearer, std::string("Bearer nothing")}) {
    const auto exchange = std::make_shared<FakeExchange>(
        "GET", "/v1/models", "",
        http::Headers{{"authorization", bearer}, {"Authorization", other}});
    gate_(exchange);
    EXPECT_EQ(exchange->wait().status, 401);
    EXPECT_TRUE(held_.empty());
  }
}

TEST_F(KeyGateTest, AnOpenPathNeedsNoKey) {
  call("/readyz", "");
  ASSERT_EQ(held_.size(), 1u);
  EXPECT_EQ(held_[0]->client(), "127.0.0.1:1");
}

TEST_F(KeyGateTest, APathThatNeedsNoKeyTakesASmallBody) {
  const http::Gate gate = gate_of(keys_.get(), {"/readyz"});
  http::Request head{.method = "POST", .path = "/readyz"};
  EXPECT_FALSE(gate(head).refusal.has_value());
  EXPECT_EQ(gate(head).max_body_bytes, 1024u);
  head.path = "/v1/models";
  EXPECT_TRUE(gate(head).refusal.has_value());
  head.headers = {{"Authorization", std::string("Bearer ") + kKey}};
  EXPECT_FALSE(gate(head).refusal.has_value());
  EXPECT_EQ(gate(head).max_body_bytes, SIZE_MAX);
}

TEST_F(KeyGateTest, TheHandlerGetsTheNameOfTheKey) {
  call("/v1/models", std::string("Bearer ") + kKey);
  ASSERT_EQ(held_.size(), 1u);
  EXPECT_EQ(held_[0]->client(), "alice");
}

TEST_F(KeyGateTest, ARequestCountsUntilItsAnswerIsComplete) {
  const std::string bearer = std::string("Bearer ") + kKey;
  const auto first = call("/v1/completions", bearer);
  ASSERT_EQ(held_.size(), 1u);
  held_[0]->stream({}, std::make_unique<EndlessSource>());
  held_.clear();  // The handler releases the exchange; its stream continues.
  const http::Response refused = call("/v1/completions", bearer)->wait();
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(nlohmann::json::parse(refused.body)["error"]["type"], "rate_limit_error");
  first->go();
  call("/v1/completions", bearer);
  EXPECT_EQ(held_.size(), 1u);
}

TEST_F(KeyGateTest, AClientThatHasTheWholeAnswerMaySendTheNextRequest) {
  const std::string bearer = std::string("Bearer ") + kKey;
  const auto first = call("/v1/completions", bearer);
  held_[0]->respond({.body = "whole"});
  const auto second = call("/v1/completions", bearer);
  ASSERT_EQ(held_.size(), 2u);
  std::atomic<bool> ready = true;
  held_[1]->stream({}, std::make_unique<GatedSource>(&ready));
  std::string bytes;
  second->read_more(&bytes);
  EXPECT_EQ(bytes, "x");
  call("/v1/completions", bearer);
  EXPECT_EQ(held_.size(), 3u);
}

TEST_F(KeyGateTest, ResumingARequestIsNotCountedAndNeedsAKey) {
  const std::string bearer = std::string("Bearer ") + kKey;
  call("/v1/completions", bearer);
  call("/v1/streams/a", bearer);
  call("/v1/streams/b", bearer);
  EXPECT_EQ(held_.size(), 3u);
  EXPECT_EQ(held_[2]->client(), "alice");
  EXPECT_EQ(call("/v1/streams/a", "")->wait().status, 401);
}

TEST_F(KeyGateTest, ARequestCountsWhileItsPermitIsHeldThoughItsClientIsGone) {
  const std::string bearer = std::string("Bearer ") + kKey;
  const auto first = call("/v1/completions", bearer);
  std::shared_ptr<Permit> permit = held_[0]->permit();
  held_.clear();
  first->go();
  EXPECT_EQ(call("/v1/completions", bearer)->wait().status, 429);
  permit = nullptr;
  call("/v1/completions", bearer);
  EXPECT_EQ(held_.size(), 1u);
}

TEST_F(KeyGateTest, AStreamMayBeWokenAfterItsHandlerReleasedTheExchange) {
  const auto exchange = call("/v1/completions", std::string("Bearer ") + kKey);
  std::atomic<bool> ready = false;
  const std::function<void()> wake = held_[0]->waker();
  held_[0]->stream({}, std::make_unique<GatedSource>(&ready));
  held_.clear();
  std::thread engine([&] {
    ready = true;
    wake();
  });
  std::string bytes;
  while (bytes.empty()) exchange->read_more(&bytes);
  EXPECT_EQ(bytes, "x");
  engine.join();
}

}  // namespace
}  // namespace lockstep
