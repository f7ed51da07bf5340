// SPDX-License-Identifier: Apache-2.0
// The requests that a full queue accepts, and the waiting requests that it removes for them.
#include "coordinator/admission/queue_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>

#include "base/status.h"
#include "tests/coordinator/helpers.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr QueueLoad kOne = {.requests = 1, .choices = 1, .prompt_tokens = 10, .bytes = 100};

class QueueSharesTest : public testing::Test {
 protected:
  // Returns the names of the displaced requests; nullopt if the request was refused. why_ then has
  // the reason.
  std::optional<std::vector<std::string>> join(const std::string& client, const std::string& name,
                                               const QueueLoad& load = kOne, int32_t priority = 0) {
    streams_[name] = std::make_shared<Stream>();
    EngineRequest request;
    request.client = client;
    request.priority = priority;
    const auto displaced = shares_.join(request, load, streams_[name]);
    why_ = message_of(displaced.status());
    if (!displaced.ok()) return std::nullopt;
    std::vector<std::string> names;
    for (const std::shared_ptr<Stream>& stream : *displaced) {
      for (const auto& [known, its] : streams_) {
        if (its == stream) names.push_back(known);
      }
    }
    return names;
  }
  void fill(const std::string& client, int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_THAT(join(client, client + std::to_string(i)).value(), IsEmpty());
    }
  }

  QueueShares shares_{{.requests = 4, .choices = 10, .prompt_tokens = 100, .bytes = 1000}};
  std::map<std::string, std::shared_ptr<Stream>> streams_;
  std::string why_;
};

TEST_F(QueueSharesTest, OneClientMayFillTheQueue) {
  fill("bob", 4);
  EXPECT_EQ(join("bob", "late"), std::nullopt);
  EXPECT_THAT(why_, HasSubstr("4 requests wait, this request adds 1, the max is 4"));
  EXPECT_EQ(shares_.all().requests, 4);
}

TEST_F(QueueSharesTest, AnotherClientDisplacesTheNewestRequestOfTheClientWithTheMost) {
  fill("bob", 4);
  EXPECT_TRUE(shares_.check("alice").ok());
  EXPECT_FALSE(shares_.check("bob").ok());
  EXPECT_THAT(join("alice", "a").value(), ElementsAre("bob3"));
  EXPECT_THAT(join("alice", "b").value(), ElementsAre("bob2"));
  EXPECT_EQ(join("alice", "c"), std::nullopt) << "both have two";
  EXPECT_EQ(join("bob", "back"), std::nullopt);
  EXPECT_EQ(shares_.all().requests, 4);
}

TEST_F(QueueSharesTest, RequestsThatBeganAreNotDisplaced) {
  fill("bob", 4);
  shares_.leave(streams_["bob3"].get());
  shares_.leave(streams_["bob3"].get());
  EXPECT_THAT(join("alice", "a").value(), IsEmpty());
  EXPECT_THAT(join("carol", "c").value(), ElementsAre("bob2"));
}

TEST_F(QueueSharesTest, ClientsShareEveryBound) {
  for (const QueueLoad& large : {QueueLoad{.requests = 1, .choices = 5},
                                 {.requests = 1, .prompt_tokens = 50},
                                 {.requests = 1, .bytes = 500}}) {
    shares_.clear();
    EXPECT_THAT(join("bob", "first", large).value(), IsEmpty());
    EXPECT_THAT(join("bob", "second", large).value(), IsEmpty());
    EXPECT_EQ(join("bob", "third", large), std::nullopt);
    EXPECT_THAT(join("alice", "small").value(), ElementsAre("second"));
  }
}

TEST_F(QueueSharesTest, RefusedAndDisplacedRequestsCountForTheBoundThatWasFull) {
  fill("bob", 4);
  EXPECT_FALSE(shares_.check("bob").ok());
  EXPECT_EQ(join("bob", "late"), std::nullopt);
  EXPECT_THAT(join("alice", "a").value(), ElementsAre("bob3"));
  EXPECT_EQ(join("carol", "large", {.requests = 1, .prompt_tokens = 95}), std::nullopt);
  EXPECT_EQ(shares_.refused().requests + shares_.refused().prompt_tokens, 4);
  EXPECT_EQ(shares_.refused().bytes, 0);
}

// The large request would fit if one of bob's three requests were displaced. But then alice would
// have 80 prompt tokens in the queue and bob 20. So the request is refused, and bob keeps all
// three.
TEST_F(QueueSharesTest, ALargeRequestTakesNoMoreThanItsShare) {
  fill("bob", 3);
  EXPECT_EQ(join("alice", "large", {.requests = 1, .prompt_tokens = 80}), std::nullopt);
  EXPECT_THAT(why_, HasSubstr("30 prompt tokens wait, this request adds 80, the max is 100"));
  EXPECT_EQ(shares_.all().requests, 3);
}

// bob's urgent request is his newest, but his requests of the worst priority make room first.
TEST_F(QueueSharesTest, TheWorstPriorityMakesRoomFirst) {
  join("bob", "spare", kOne, 10);
  join("bob", "sparer", kOne, 10);
  join("bob", "plain");
  join("bob", "urgent", kOne, -10);
  EXPECT_THAT(join("alice", "a").value(), ElementsAre("sparer"));
  EXPECT_THAT(join("alice", "b", kOne, 20).value(), ElementsAre("spare"));
  EXPECT_EQ(join("alice", "c", kOne, -20), std::nullopt) << "no priority makes a share larger";
}

TEST_F(QueueSharesTest, ManyConnectionsOfOneNetworkKeepNoOtherNetworkOut) {
  for (const char* port : {"1", "2", "3", "4"}) {
    join(std::string("10.0.0.1:") + port, port);
  }
  EXPECT_EQ(join("10.0.0.1:5", "5"), std::nullopt);
  EXPECT_THAT(join("10.0.0.2:1", "other").value(), ElementsAre("4"));
  EXPECT_THAT(join("[fd00::1]:1", "third").value(), ElementsAre("3"));
  EXPECT_EQ(join("10.0.0.1:6", "6"), std::nullopt);
  EXPECT_EQ(join("[fd00::2]:1", "neighbour"), std::nullopt) << "both are in one network of 64 bits";
}

// Without API keys each connection is a client. A new connection displaces a request of the client
// with the most, even if that client is in the same network.
TEST_F(QueueSharesTest, ConnectionsOfOneNetworkShareTheNetworksPart) {
  fill("10.0.0.1:1", 3);
  join("10.0.0.2:1", "other");
  EXPECT_THAT(join("10.0.0.1:2", "new").value(), ElementsAre("10.0.0.1:12"));
  EXPECT_THAT(join("10.0.0.2:2", "second").value(), ElementsAre("10.0.0.1:11"));
  EXPECT_EQ(join("10.0.0.1:2", "more"), std::nullopt);
  EXPECT_EQ(shares_.all().requests, 4);
}

// The queue stays within its bounds, no request is lost, and it is empty at the end.
TEST_F(QueueSharesTest, RandomRequestsKeepTheBoundsAndLeaveTheQueueEmpty) {
  std::mt19937 random(7);
  const auto draw = [&](int below) { return static_cast<int>(random() % below); };
  for (int i = 0; i < 3000; ++i) {
    const std::string name = std::to_string(i);
    const QueueLoad load = {.requests = 1,
                            .choices = 1 + draw(4),
                            .prompt_tokens = 1 + draw(40),
                            .bytes = 1 + draw(400)};
    const QueueLoad before = shares_.all();
    const auto displaced = join("10.0.0." + std::to_string(draw(3)) + ":" + std::to_string(draw(3)),
                                name, load, draw(3));
    if (!displaced.has_value()) {
      EXPECT_EQ(shares_.all().requests, before.requests);
      streams_.erase(name);
      continue;
    }
    EXPECT_LE(shares_.all().requests, 4);
    if (shares_.all().requests > 1) {
      EXPECT_LE(shares_.all().choices, 10);
      EXPECT_LE(shares_.all().prompt_tokens, 100);
      EXPECT_LE(shares_.all().bytes, 1000);
    }
    EXPECT_EQ(shares_.all().requests + displaced->size(), before.requests + 1);
    for (const std::string& one : *displaced) streams_.erase(one);
    if (draw(3) == 0) {
      shares_.leave(streams_.begin()->second.get());
      streams_.erase(streams_.begin());
    }
  }
  for (const auto& [name, stream] : streams_) shares_.leave(stream.get());
  EXPECT_EQ(shares_.all().requests, 0);
  EXPECT_EQ(shares_.all().bytes, 0);
}

TEST_F(QueueSharesTest, AnEmptyQueueAcceptsARequestOfAnySize) {
  EXPECT_THAT(
      join("bob", "huge", {.requests = 1, .choices = 64, .prompt_tokens = 500, .bytes = 9999})
          .value(),
      IsEmpty());
}

TEST_F(QueueSharesTest, AStreamThatIsGoneTakesNoRoom) {
  fill("bob", 4);
  streams_.erase("bob3");
  EXPECT_THAT(join("alice", "a").value(), IsEmpty());
  EXPECT_EQ(shares_.all().requests, 4);
}

TEST(EngineSharesTest, AClientThatFillsTheQueueMakesRoomForAnother) {
  FakeCluster cluster({.max_sequences = 1});
  Engine engine(
      &cluster, nullptr,
      {.max_running = 1,
       .max_waiting = {.requests = 4, .choices = 99, .prompt_tokens = 999, .bytes = 99'999}});
  ASSERT_TRUE(engine.wait_ready().ok());
  StepGate gate(cluster);
  const auto of = [](const char* client) {
    EngineRequest request = request_of(1, 3, 5);
    request.client = client;
    return request;
  };
  const std::shared_ptr<Stream> runs = *engine.submit(of("bob"));
  eventually([&] { return engine.stats().running == 1; });
  std::vector<std::shared_ptr<Stream>> streams;
  const absl::Status refused = submit_until_refused(
      engine, 20, [&](int32_t) { return of("bob"); }, &streams);
  EXPECT_THAT(message_of(refused), HasSubstr("the queue is full"));
  ASSERT_EQ(streams.size(), 4u);
  const std::shared_ptr<Stream> other = *engine.submit(of("alice"));
  gate.open();
  EXPECT_EQ(finish(*other)[0].tokens.size(), 5u);
  finish(*streams.back());
  EXPECT_EQ(streams.back()->status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(message_of(streams.back()->status()), HasSubstr("newest requests are removed"));
  streams.pop_back();
  for (const std::shared_ptr<Stream>& stream : streams) {
    EXPECT_EQ(finish(*stream)[0].tokens.size(), 5u);
  }
}

}  // namespace
}  // namespace lockstep
