// SPDX-License-Identifier: Apache-2.0
// Workers that die, join late, or must not join at all.
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/network/http_client.h"
#include "tests/support/processes/by_hand.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

// Requests with greedy decoding, sampling, stop strings, penalties and log-probabilities.
std::vector<v1::GenerateRequest> stories() {
  std::vector<v1::GenerateRequest> stories;
  stories.reserve(5);
  for (int i = 0; i < 5; ++i) stories.push_back(story(400, i));
  stories[1].set_temperature(0);
  stories[2].set_top_p(0.9f);
  stories[3].add_stop("never to be found");
  stories[3].set_frequency_penalty(0.3f);
  stories[4].set_logprobs(2);
  return stories;
}

TEST(LostWorkerTest, ALostWorkerChangesNoAnswer) {
  Server server({"--workers", "3"});
  const std::vector<v1::GenerateRequest> requests = stories();
  std::vector<Answered> alone;
  alone.reserve(requests.size());
  for (const v1::GenerateRequest& request : requests) alone.push_back(server.generate(request));
  for (int round = 0; round < 3; ++round) {
    std::vector<Answered> answers(requests.size());
    std::vector<std::thread> clients;
    for (size_t i = 0; i < requests.size(); ++i) {
      clients.emplace_back([&, i] { answers[i] = server.generate(requests[i]); });
    }
    EXPECT_TRUE(server.eventually([](const auto& model) { return model.running() == 5; }));
    kill(server.workers().at(round), SIGKILL);
    for (std::thread& client : clients) client.join();
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE("round " + std::to_string(round) + ", story " + std::to_string(i));
      EXPECT_TRUE(answers[i].status.ok()) << answers[i].status.error_message();
      EXPECT_EQ(answers[i].tokens, alone[i].tokens);
      EXPECT_EQ(answers[i].text, alone[i].text);
      EXPECT_EQ(answers[i].finish_reason, alone[i].finish_reason);
    }
    EXPECT_TRUE(server.eventually([&](const auto&) { return server.workers().size() == 3; }));
  }
}

TEST(LostWorkerTest, ASuspendedWorkerIsKilledAndReplacedDuringARequest) {
  Server server({"--workers", "2"});
  const Answered alone = server.generate(story(50, 1));
  const pid_t worker = server.workers().at(1);
  kill(worker, SIGSTOP);
  const Answered answer = server.generate(story(50, 1));
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.tokens, alone.tokens);
  EXPECT_FALSE(is_alive(worker));
}

TEST(LostWorkerTest, AWorkerKilledSixTimesInARowIsStillRestarted) {
  Server server({"--workers", "2"});
  pid_t last = server.workers().at(1);
  for (int round = 0; round < 6; ++round) {
    kill(last, SIGKILL);
    ASSERT_TRUE(server.eventually([&](const auto&) {
      const std::vector<pid_t> workers = server.workers();
      const bool restarted = workers.size() == 2 && workers.back() > last;
      if (restarted) last = workers.back();
      return restarted;
    }));
  }
  EXPECT_TRUE(
      server.eventually([&](const auto&) { return server.generate(story(5, 1)).status.ok(); }));
}

// A terminal also sends SIGINT to the workers.
TEST(LostWorkerTest, OnlyTheServerReactsToCtrlC) {
  Server server({"--workers", "2", "--log-level", "info"});
  const std::vector<pid_t> workers = server.workers();
  for (const pid_t worker : workers) kill(worker, SIGINT);
  EXPECT_TRUE(server.generate(story(100, 1)).status.ok());
  EXPECT_EQ(server.workers(), workers);
  EXPECT_EQ(server.process().err().find("leaves"), std::string::npos) << server.process().err();
}

TEST(LostWorkerTest, NoPortIsOpenedWithoutAJoinToken) {
  const ProcessResult result =
      run_lockstep({"serve", "--grpc", "127.0.0.1:0", "--http", "off", "--cluster", "127.0.0.1:0"},
                   {.environment = {{"LOCKSTEP_JOIN_TOKEN", ""}}});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("LOCKSTEP_JOIN_TOKEN: must be set"), std::string::npos) << result.err;
  EXPECT_EQ(lines_said(result.err), 1) << result.err;
}

TEST(LostWorkerTest, WorkersStartedByHandJoinWithTheToken) {
  const auto coordinator = start_coordinator(2);
  const std::string address = join_address(*coordinator);

  const auto stranger = start_worker(address, {}, "another, open please");
  EXPECT_EQ(stranger->wait(), 2);
  EXPECT_NE(stranger->err().find("join token"), std::string::npos) << stranger->err();

  const auto first = start_worker(address);
  const auto second = start_worker(address);
  EXPECT_TRUE(coordinator->wait_for_err("ready;")) << coordinator->err();
}

// ---- Workers that are started by hand ----

TEST(ByHandTest, WorkersWaitForACoordinatorAndOutliveItWithTheirWeights) {
  const std::string address = free_address();
  const auto first = start_worker(address);
  const auto second = start_worker(address);
  ASSERT_TRUE(first->wait_for_err("dialling until there is one")) << first->err();
  auto server = std::make_unique<Server>(serve_by_hand(address), with_join_token());
  const Answered before = server->generate(story(20, 5));
  EXPECT_TRUE(before.status.ok());

  server->process().signal(SIGKILL);
  server->process().wait();
  ASSERT_TRUE(first->wait_for_err("weights stay in memory")) << first->err();
  ASSERT_TRUE(second->wait_for_err("weights stay in memory")) << second->err();
  server = std::make_unique<Server>(serve_by_hand(address), with_join_token());
  EXPECT_EQ(server->generate(story(20, 5)).tokens, before.tokens);
  EXPECT_TRUE(is_alive(first->pid()));
  EXPECT_TRUE(is_alive(second->pid()));
  EXPECT_EQ(lines_with(first->err(), "dialling until"), 2) << first->err();
}

TEST(ByHandTest, TheServerSaysHowManyHaveJoined) {
  const std::string address = free_address();
  std::vector<std::string> arguments = {lockstep_binary(), "serve",      "--http", "off",
                                        "--grpc",          "127.0.0.1:0"};
  const std::vector<std::string> more = serve_by_hand(address);
  arguments.insert(arguments.end(), more.begin(), more.end());
  Process server(arguments, with_join_token());
  const auto first = start_worker(address);
  EXPECT_TRUE(server.wait_for_err("1 of 2 workers have joined")) << server.err();
  EXPECT_TRUE(first->wait_for_err("connected to " + address)) << first->err();
  const auto second = start_worker(address);
  EXPECT_TRUE(server.wait_for_err("ready;")) << server.err();
}

TEST(ByHandTest, AWorkerWaitsForAnUnresolvedNameWithOneLine) {
  const std::vector<std::string> with_data_port = {"--insecure", "cluster", "--data-listen",
                                                   "0.0.0.0:0"};
  for (const std::vector<std::string>& more : {{}, with_data_port}) {
    const auto waiting = start_worker("no-such-host.invalid:50052", more);
    ASSERT_TRUE(waiting->wait_for_err("no coordinator at no-such-host.invalid:50052"))
        << waiting->err();
    waiting->signal(SIGTERM);
    EXPECT_EQ(waiting->wait(), 0);
    EXPECT_EQ(lines_with(waiting->err(), "dialling until"), 1) << waiting->err();
  }
}

TEST(ByHandTest, ASpareWithALostWorkersWeightsReplacesItWithoutLoading) {
  const std::string address = free_address();
  std::vector<std::unique_ptr<Process>> workers;
  workers.reserve(3);
  for (int rank = 0; rank < 3; ++rank) {
    workers.push_back(start_worker(address, {"--rank", std::to_string(rank)}));
  }
  // Without a spare the server would wait for a quarter of an hour.
  Server server(
      serve_by_hand(address,
                    {"--grace-ms", "1000000", "--admin", "127.0.0.1:0", "--log-level", "info"}, 3),
      with_join_token());
  const Answered before = server.generate(story(400, 5));
  const auto spare = start_worker(address, {"--spare"});
  const std::string holds = fmt::format("(pid {}) holds the weights of rank ", spare->pid());
  ASSERT_TRUE(server.process().wait_for_err(holds)) << server.process().err();
  const std::string log = server.process().err();
  const int rank = std::stoi(log.substr(log.find(holds) + holds.size()));
  const auto listed =
      nlohmann::json::parse(HttpClient(server.admin_address()).get("/workers").body);
  EXPECT_EQ(listed["workers"][3]["role"], "spare");
  EXPECT_EQ(listed["workers"][3]["holds"], rank);
  EXPECT_EQ(listed["workers"][3]["weight_bytes"], listed["workers"][rank]["weight_bytes"]);

  Answered after;
  std::thread client([&] { after = server.generate(story(400, 5)); });
  EXPECT_TRUE(server.eventually([](const auto& model) { return model.running() == 1; }));
  workers.at(rank).reset();  // Kills it.
  client.join();
  EXPECT_TRUE(after.status.ok()) << after.status.error_message();
  EXPECT_EQ(after.tokens, before.tokens);
  EXPECT_TRUE(server.process().wait_for_err(fmt::format(
      "rank {} is assigned to a spare that holds its weights, pid {}", rank, spare->pid())))
      << server.process().err();
  EXPECT_TRUE(spare->wait_for_err("are in memory: nothing is read")) << spare->err();
}

TEST(ByHandTest, FiveRestartsInARowChangeNoAnswer) {
  const std::string address = free_address();
  std::vector<std::unique_ptr<Process>> workers(3);
  const auto start = [&](int rank) {
    workers.at(rank) = start_worker(address, {"--rank", std::to_string(rank)});
  };
  for (int rank = 0; rank < 3; ++rank) start(rank);
  Server server(serve_by_hand(address, {"--grace-ms", "1000000", "--log-level", "info"}, 3),
                with_join_token());
  v1::GenerateRequest request = story(900, 5);
  request.set_temperature(0);
  const Answered before = server.generate(request);
  Answered after;
  std::thread client([&] { after = server.generate(request); });
  EXPECT_TRUE(server.eventually([](const auto& model) { return model.running() == 1; }));
  for (int round = 0; round < 5; ++round) {
    const int rank = round % 3;
    workers[rank]->signal(SIGTERM);
    EXPECT_EQ(workers[rank]->wait(), 0);
    start(rank);
    EXPECT_TRUE(becomes_true([&] {
      return lines_with(server.process().err(), ": 3 ranks ready") == round + 2;
    })) << server.process().err();
  }
  client.join();
  EXPECT_TRUE(after.status.ok()) << after.status.error_message();
  EXPECT_EQ(after.tokens, before.tokens);
  EXPECT_EQ(lines_with(server.process().err(), "leaves: its process was asked to end"), 5);
}

TEST(ByHandTest, TheOtherWorkersContinueWithTheSameBits) {
  const std::string address = free_address();
  const auto first = start_worker(address);
  auto second = start_worker(address);
  Server server(serve_by_hand(address), with_join_token());
  const Answered before = server.generate(story(20, 5));
  second.reset();
  EXPECT_TRUE(server.eventually([&](const auto&) {
    const Answered after = server.generate(story(20, 5));
    return after.status.ok() && after.tokens == before.tokens;
  }));
  EXPECT_TRUE(is_alive(first->pid()));
}

TEST(ByHandTest, AFasterWorkerGetsALargerShardAndTheBitsStayTheSame) {
  const std::string address = free_address();
  const auto weights_and_tokens = [&](const std::vector<std::string>& slow_flags,
                                      const std::vector<std::string>& fast_flags) {
    const auto slow = start_worker(address, slow_flags);
    const auto fast = start_worker(address, fast_flags);
    Server server(serve_by_hand(address, {"--admin", "127.0.0.1:0"}), with_join_token());
    std::map<pid_t, int64_t> weights;
    const auto listed =
        nlohmann::json::parse(HttpClient(server.admin_address()).get("/workers").body);
    for (const auto& worker : listed["workers"]) {
      weights[worker["pid"]] = worker["weight_bytes"];
    }
    return std::tuple(weights[slow->pid()], weights[fast->pid()],
                      server.generate(story(40, 5)).tokens);
  };
  const auto [one, other, tokens] = weights_and_tokens({}, {});
  const auto [slow, fast, uneven] = weights_and_tokens({"--speed", "2"}, {"--speed", "8"});
  EXPECT_EQ(uneven, tokens);
  EXPECT_EQ(uneven.size(), 40u);
  EXPECT_GT(fast, 2 * slow);
  EXPECT_LT(one, 2 * other);
  EXPECT_LT(other, 2 * one);
}

}  // namespace
}  // namespace lockstep::testing
