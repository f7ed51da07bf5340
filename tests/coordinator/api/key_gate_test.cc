// SPDX-License-Identifier: Apache-2.0
// The gate in front of HTTP's handlers.
#include "coordinator/api/key_gate.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/fake_exchange.h"
#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

using testing::FakeExchange;

constexpr const char* kKey = "sk-0123456789abcdef";

class KeyGateTest : public ::testing::Test {
 protected:
  KeyGateTest() {
    const std::string path = folder_.path() / "keys";
    std::ofstream(path) << "alice " << kKey << " requests=1\n";
    auto keys = ApiKeys::load(path);
    EXPECT_TRUE(keys.ok()) << keys.status();
    keys_ = *std::move(keys);
    gate_ = with_keys(keys_.get(), {"/readyz"}, [this](std::shared_ptr<http::Exchange> exchange) {
      held_.push_back(std::move(exchange));
    });
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
  std::vector<std::shared_ptr<http::Exchange>> held_;  // That the handler was given.
};

// Never at its end.
class EndlessSource final : public http::BodySource {
 public:
  State read(std::string* bytes) override {
    *bytes += "x";
    return State::kMore;
  }
};

TEST_F(KeyGateTest, WithoutAKeyTheAnswerSaysWhatIsWanted) {
  const auto exchange = call("/v1/models", "Bearer nothing");
  EXPECT_TRUE(held_.empty());
  const http::Response response = exchange->wait();
  EXPECT_EQ(response.status, 401);
  EXPECT_EQ(nlohmann::json::parse(response.body)["error"]["code"], "invalid_api_key");
}

TEST_F(KeyGateTest, AnOpenPathNeedsNone) {
  call("/readyz", "");
  ASSERT_EQ(held_.size(), 1u);
  EXPECT_EQ(held_[0]->client(), "127.0.0.1:1");
}

TEST_F(KeyGateTest, TheHandlerIsToldWhoseKeyItIs) {
  call("/v1/models", std::string("Bearer ") + kKey);
  ASSERT_EQ(held_.size(), 1u);
  EXPECT_EQ(held_[0]->client(), "alice");
}

TEST_F(KeyGateTest, ARequestCountsUntilItsAnswerIsComplete) {
  const std::string bearer = std::string("Bearer ") + kKey;
  const auto first = call("/v1/completions", bearer);
  ASSERT_EQ(held_.size(), 1u);
  held_[0]->stream({}, std::make_unique<EndlessSource>());
  held_.clear();  // The handler has let go of it; the stream goes on.
  const http::Response refused = call("/v1/completions", bearer)->wait();
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(nlohmann::json::parse(refused.body)["error"]["type"], "rate_limit_error");
  first->go();
  call("/v1/completions", bearer);
  EXPECT_EQ(held_.size(), 1u);
}

}  // namespace
}  // namespace lockstep
