// SPDX-License-Identifier: Apache-2.0
// A worker's port for probes, as a kubelet sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/network/health_client.h"
#include "tests/support/processes/by_hand.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

// Starts workers with a port for probes. Until a test starts a server, none is at `address_`.
class ProbesTest : public ::testing::Test {
 protected:
  std::unique_ptr<Process> start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"--health", "127.0.0.1:0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return start_worker(address_, arguments);
  }
  static std::string probes(Process& worker) { return address_after(worker, "probes at "); }
  static bool becomes(HealthWatch& watch, const std::string& wanted) {
    for (std::string state; state.find("error") == std::string::npos;) {
      state = watch.next_answer();
      if (state == wanted) return true;
    }
    return false;
  }

  const std::string address_ = free_address();
};

TEST_F(ProbesTest, AWorkerIsReadyWhileItsGroupServes) {
  const auto worker = start();
  const std::string port = probes(*worker);
  HealthWatch watch(port, "ready");
  EXPECT_EQ(watch.next_answer(), "NOT_SERVING");
  EXPECT_EQ(health_of(port, "live"), "SERVING");
  auto peer = start_worker(address_);
  auto server = std::make_unique<Server>(serve_by_hand(address_, {"--grace-ms", "1000000"}),
                                         with_join_token());
  EXPECT_TRUE(becomes(watch, "SERVING"));
  EXPECT_EQ(health_of(port, "ready"), "SERVING");
  EXPECT_EQ(health_of(port, ""), "SERVING");
  peer.reset();  // Kills it: the group is lost, and waits for the next worker.
  EXPECT_TRUE(becomes(watch, "NOT_SERVING"));
  peer = start_worker(address_);
  EXPECT_TRUE(becomes(watch, "SERVING"));
  server.reset();
  EXPECT_TRUE(becomes(watch, "NOT_SERVING"));
  EXPECT_EQ(health_of(port, "live"), "SERVING");
  EXPECT_EQ(health_of(port, "lockstep.v1.Generation"), "error 5");  // NOT_FOUND
}

TEST_F(ProbesTest, ASpareIsReadyWhenItHasWeights) {
  const auto spare = start({"--spare"});
  HealthWatch watch(probes(*spare), "ready");
  EXPECT_EQ(watch.next_answer(), "NOT_SERVING");
  const auto first = start_worker(address_);
  const auto second = start_worker(address_);
  Server server(serve_by_hand(address_, {"--log-level", "info"}), with_join_token());
  EXPECT_TRUE(becomes(watch, "SERVING"));
  EXPECT_TRUE(server.process().wait_for_err("holds the weights of rank"));
}

TEST_F(ProbesTest, AnAddressThatCannotBeUsedIsAnErrorOfOneLine) {
  const auto worker = start();
  const std::string taken = probes(*worker);
  const std::pair<std::string, std::string> cases[] = {
      {taken, "--health: could not listen on " + taken + ": Address already in use"},
      {"nonsense", "--health nonsense: must be HOST:PORT"},
      {":8081", "--health :8081: must be HOST:PORT, found no host"},
      {"127.0.0.1:99999", "--health 127.0.0.1:99999: must"},
      {"192.0.2.1:8081", "choose an address of this machine"}};
  for (const auto& [address, words] : cases) {
    const ProcessResult result =
        run_lockstep({"worker", "--coordinator", address_, "--health", address}, with_join_token());
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr(words));
    EXPECT_EQ(lines_said(result.err), 1) << result.err;
  }
}

}  // namespace
}  // namespace lockstep::testing
