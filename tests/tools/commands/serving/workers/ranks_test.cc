// SPDX-License-Identifier: Apache-2.0
// Workers that ask for a rank, as the pods of a StatefulSet ask for their index: the ranks that
// they get at the start and after a restart.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/network/http_client.h"
#include "tests/support/processes/by_hand.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;

// Each pod is a worker process that gets all its options by the environment.
class RanksTest : public ::testing::Test {
 protected:
  void start(int pod, std::map<std::string, std::string> more = {}) {
    more.insert({{"LOCKSTEP_COORDINATOR", address_},
                 {"LOCKSTEP_JOIN_TOKEN", "sesame, open please"},
                 {"LOCKSTEP_THREADS", "1"},
                 {"LOCKSTEP_SPARE", ""},
                 {"LOCKSTEP_RANK", std::to_string(pod)}});
    if (static_cast<int>(pods_.size()) <= pod) pods_.resize(pod + 1);
    pods_[pod] = std::make_unique<Process>(std::vector<std::string>{lockstep_binary(), "worker"},
                                           ProcessOptions{.input = "", .environment = more});
  }
  void serve(int ranks, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--admin", "127.0.0.1:0", "--log-level", "info"});
    server_ = std::make_unique<Server>(serve_by_hand(address_, more, ranks), with_join_token());
    before_ = server_->generate(story(40, 5)).tokens;
  }
  void expect_the_same_answer() {
    const Answered answer = server_->generate(story(40, 5));
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.tokens, before_);
  }
  // Waits for words in the server's log after the lines that it had when this object was made.
  struct Said {
    Server* server;
    size_t from = server->process().err().size();
    bool then(const std::string& words) const {
      return becomes_true(
          [&] { return server->process().err(from).find(words) != std::string::npos; });
    }
  };
  Said said() const { return {server_.get()}; }
  bool holds(const Said& said, int pod) const {
    return said.then(fmt::format("(pid {}) holds the weights of rank", pods_[pod]->pid()));
  }
  // The pod of each rank.
  std::vector<int> pods_by_rank() const {
    std::map<pid_t, int> pods;
    for (size_t pod = 0; pod < pods_.size(); ++pod) {
      if (pods_[pod] != nullptr) pods[pods_[pod]->pid()] = static_cast<int>(pod);
    }
    const auto listed =
        nlohmann::json::parse(HttpClient(server_->admin_address()).get("/workers").body);
    std::map<int, int> by_rank;
    for (const auto& worker : listed["workers"]) {
      if (worker["role"] == "serving") by_rank[worker["rank"]] = pods[worker["pid"]];
    }
    std::vector<int> result;
    result.reserve(by_rank.size());
    for (const auto& [rank, pod] : by_rank) result.push_back(pod);
    return result;
  }

  const std::string address_ = free_address();
  std::vector<std::unique_ptr<Process>> pods_;
  std::unique_ptr<Server> server_;
  std::vector<int> before_;
};

TEST_F(RanksTest, ThePodsIndexIsItsRankInTheFirstGroupInAnyOrder) {
  for (const int pod : {2, 0, 1}) start(pod);
  serve(3);
  EXPECT_THAT(pods_by_rank(), ElementsAre(0, 1, 2));
}

TEST_F(RanksTest, APodThatComesBackInTimeGetsItsRankAgain) {
  for (const int pod : {0, 1, 2}) start(pod);
  serve(3, {"--grace-ms", "1000000"});
  const Said before = said();
  pods_[1].reset();
  start(1);
  EXPECT_TRUE(before.then(": 3 ranks ready"));
  EXPECT_THAT(pods_by_rank(), ElementsAre(0, 1, 2));
  expect_the_same_answer();
}

// When pod 1 comes back, pod 3 has its rank. Pod 1 loads weights as a spare, and the group
// continues.
TEST_F(RanksTest, APodWhoseRankIsTakenGetsTheNextFreeRankAndMovesNoOtherPod) {
  for (const int pod : {0, 1, 2}) start(pod);
  serve(3, {"--grace-ms", "1000000"});
  Said before = said();
  start(3, {{"LOCKSTEP_SPARE", "true"}});
  EXPECT_TRUE(holds(before, 3));
  before = said();
  pods_[1].reset();
  EXPECT_TRUE(before.then(": 3 ranks ready"));
  EXPECT_THAT(pods_by_rank(), ElementsAre(0, 3, 2));
  before = said();
  start(1);
  EXPECT_TRUE(holds(before, 1));
  EXPECT_THAT(pods_by_rank(), ElementsAre(0, 3, 2));
  expect_the_same_answer();
  before = said();
  pods_[2].reset();
  EXPECT_TRUE(before.then(": 3 ranks ready"));
  EXPECT_THAT(pods_by_rank(), ElementsAre(0, 3, 1)) << "pod 3 keeps its rank and its weights";
  expect_the_same_answer();
}

TEST_F(RanksTest, APodThatComesBackToASmallerGroupGetsItsRankWhenItGrows) {
  for (const int pod : {0, 1, 2}) start(pod);
  serve(3, {"--grace-ms", "0"});
  Said before = said();
  pods_[1].reset();
  EXPECT_TRUE(before.then(": 2 ranks ready"));
  EXPECT_THAT(pods_by_rank(), ElementsAre(0, 2));
  expect_the_same_answer();
  before = said();
  start(1);
  EXPECT_TRUE(before.then(": 3 ranks ready"));
  EXPECT_THAT(pods_by_rank(), ElementsAre(0, 1, 2));
  expect_the_same_answer();
}

TEST_F(RanksTest, AnExtraPodLoadsWeightsAsASpareWithoutAnOption) {
  for (const int pod : {3, 1, 2}) start(pod);
  serve(3, {"--grace-ms", "1000000"});
  EXPECT_THAT(pods_by_rank(), ElementsAre(3, 1, 2));
  Said before = said();
  start(0);
  EXPECT_TRUE(holds(before, 0));
  before = said();
  pods_[1].reset();
  EXPECT_TRUE(before.then(": 3 ranks ready"));
  EXPECT_THAT(pods_by_rank(), ElementsAre(3, 0, 2));
  expect_the_same_answer();
}

}  // namespace
}  // namespace lockstep::testing
