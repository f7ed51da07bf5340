// SPDX-License-Identifier: Apache-2.0
// Workers that get SIGTERM, as a pod does at the start of its grace period. Each ends by itself,
// whatever it does or waits for, and no request is lost. A test suspends other processes to send
// the signal in the middle of a worker's step or load.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/network/health_client.h"
#include "tests/support/processes/by_hand.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// For a quarter of an hour the server waits for a replacement of a lost worker, and does not count
// a suspended worker as lost.
const std::vector<std::string> kPatient = {"--grace-ms", "1000000", "--silent-ms", "1000000",
                                           "--stuck-ms", "1000000", "--log-level", "info"};

std::string leaves(const Process& worker) {
  return fmt::format("(pid {}) leaves: its process was asked to end", worker.pid());
}

// Two workers and a server that answered one request.
class SigtermTest : public ::testing::Test {
 protected:
  void start_server() {
    for (int rank = 0; rank < 2; ++rank) start(rank);
    server_ = std::make_unique<Server>(serve_by_hand(address_, kPatient), with_join_token());
    before_ = server_->generate(request_);
    EXPECT_TRUE(before_.status.ok());
  }
  void start(int rank) {
    workers_[rank] = start_worker(address_, {"--rank", std::to_string(rank)});
  }
  void expect_the_same(const Answered& answer) const {
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.tokens, before_.tokens);
  }
  bool server_says(const std::string& words) { return server_->process().wait_for_err(words); }

  const std::string address_ = free_address();
  const v1::GenerateRequest request_ = story(400, 5);
  std::unique_ptr<Process> workers_[2];
  std::unique_ptr<Server> server_;
  Answered before_;
};

TEST_F(SigtermTest, AnIdleWorkerLeavesAndTheServerWaitsForTheNext) {
  start_server();
  workers_[1]->signal(SIGTERM);
  EXPECT_EQ(workers_[1]->wait(), 0) << workers_[1]->err();
  EXPECT_TRUE(server_says(leaves(*workers_[1]))) << server_->process().err();
  Answered answer;
  std::thread client([&] { answer = server_->generate(request_); });
  start(1);
  client.join();
  expect_the_same(answer);
}

TEST_F(SigtermTest, AWorkerLeavesInTheMiddleOfAStep) {
  start_server();
  Answered answer;
  std::thread client([&] { answer = server_->generate(request_); });
  EXPECT_TRUE(server_->eventually([](const auto& model) { return model.running() == 1; }));
  workers_[1]->signal(SIGSTOP);  // Rank 0 waits for it in a collective, for as long as it takes.
  workers_[0]->signal(SIGTERM);
  EXPECT_EQ(workers_[0]->wait(), 0) << workers_[0]->err();
  EXPECT_TRUE(server_says(leaves(*workers_[0]))) << server_->process().err();
  workers_[1]->signal(SIGCONT);
  start(0);
  client.join();
  expect_the_same(answer);
}

TEST_F(SigtermTest, AWorkerLeavesWhileItsGroupLoads) {
  const auto coordinator = start_coordinator(2, kPatient);
  const std::string address = join_address(*coordinator);
  const auto second = start_worker(address, {"--rank", "1"});
  ASSERT_TRUE(coordinator->wait_for_err("1 of 2 workers have joined")) << coordinator->err();
  second->signal(SIGSTOP);  // No group can be loaded without it.
  auto first = start_worker(address, {"--rank", "0"});
  ASSERT_TRUE(coordinator->wait_for_err("2 ranks load")) << coordinator->err();
  first->signal(SIGTERM);
  EXPECT_EQ(first->wait(), 0) << first->err();
  EXPECT_TRUE(coordinator->wait_for_err(leaves(*first))) << coordinator->err();
  EXPECT_THAT(coordinator->err(), Not(HasSubstr("ready;")));
  second->signal(SIGCONT);
  first = start_worker(address, {"--rank", "0"});
  EXPECT_TRUE(coordinator->wait_for_err("ready;")) << coordinator->err();
}

TEST_F(SigtermTest, AWorkerEndsWhileItWaitsForItsCoordinator) {
  const auto worker = start_worker(address_);
  ASSERT_TRUE(worker->wait_for_err("dialling until there is one")) << worker->err();
  worker->signal(SIGTERM);
  EXPECT_EQ(worker->wait(), 0) << worker->err();
}

// The test accepts the worker's connection in place of a coordinator, and sends nothing.
TEST_F(SigtermTest, AWorkerEndsBeforeItHasJoined) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in place = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t bytes = sizeof place;
  ASSERT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&place), bytes), 0);
  ASSERT_EQ(listen(socket, 8), 0);
  ASSERT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&place), &bytes), 0);
  const auto worker = start_worker(fmt::format("127.0.0.1:{}", ntohs(place.sin_port)));
  const int connection = accept(socket, nullptr, nullptr);
  ASSERT_GE(connection, 0);
  worker->signal(SIGTERM);
  EXPECT_EQ(worker->wait(), 0) << worker->err();
  EXPECT_THAT(worker->err(), Not(HasSubstr("joined")));
  close(connection);
  close(socket);
}

// To the worker, a suspended coordinator looks like a busy or unreachable one.
TEST_F(SigtermTest, AWorkerWhoseCoordinatorReadsNothingIsNotReadyAndEnds) {
  workers_[0] = start_worker(address_, {"--health", "127.0.0.1:0"});
  start(1);
  server_ = std::make_unique<Server>(serve_by_hand(address_, kPatient), with_join_token());
  const std::string probes = address_after(*workers_[0], "probes at ");
  HealthWatch watch(probes, "ready");
  std::string state = watch.next_answer();
  if (state == "NOT_SERVING") state = watch.next_answer();
  EXPECT_EQ(state, "SERVING");
  server_->process().signal(SIGSTOP);
  workers_[0]->signal(SIGTERM);
  EXPECT_EQ(watch.next_answer(), "NOT_SERVING");
  EXPECT_EQ(workers_[0]->wait(), 0) << workers_[0]->err();
  server_->process().signal(SIGCONT);
  EXPECT_TRUE(server_says("was lost")) << server_->process().err();
}

// A thread that is blocked in getaddrinfo() cannot be interrupted. The process ends itself if this
// thread still runs some seconds after the signal.
TEST_F(SigtermTest, AWorkerEndsWhileANameServerDoesNotAnswer) {
  Process worker({lockstep_binary(), "worker"},
                 {.input = "",
                  .environment = {{"LD_PRELOAD", LOCKSTEP_SILENT_LOOKUP},
                                  {"LOCKSTEP_COORDINATOR", "coordinator:50052"},
                                  {"LOCKSTEP_DATA_LISTEN", "0.0.0.0:0"},
                                  {"LOCKSTEP_INSECURE", "cluster"},
                                  {"LOCKSTEP_JOIN_TOKEN", "sesame, open please"}}});
  ASSERT_TRUE(worker.wait_for_err("looking up a name")) << worker.err();
  worker.signal(SIGTERM);
  EXPECT_EQ(worker.wait(), 0) << worker.err();
  EXPECT_THAT(worker.err(), HasSubstr("after the signal: ending at once"));
}

// A rolling restart with a spare. Each time a worker without a rank replaces the ended one at once,
// and the restarted worker loads weights for the next time.
TEST_F(SigtermTest, ASpareReplacesTheWorkerAndTheRestartedWorkerIsTheNextSpare) {
  start_server();
  const auto spare = start_worker(address_, {"--spare"});
  ASSERT_TRUE(server_says(fmt::format("a spare (pid {}) holds", spare->pid())));
  Answered answer;
  std::thread client([&] { answer = server_->generate(request_); });
  EXPECT_TRUE(server_->eventually([](const auto& model) { return model.running() == 1; }));
  for (const int rank : {1, 0}) {
    const size_t said = server_->process().err().size();
    workers_[rank]->signal(SIGTERM);
    EXPECT_EQ(workers_[rank]->wait(), 0);
    EXPECT_TRUE(becomes_true([&] {
      return server_->process().err(said).find(": 2 ranks ready") != std::string::npos;
    })) << server_->process().err();
    workers_[rank] = start_worker(address_, {"--rank", std::to_string(rank)});
    EXPECT_TRUE(server_says(fmt::format("a worker (pid {}) holds", workers_[rank]->pid())))
        << server_->process().err();
  }
  client.join();
  expect_the_same(answer);
  expect_the_same(server_->generate(request_));
}

}  // namespace
}  // namespace lockstep::testing
