// SPDX-License-Identifier: Apache-2.0
// The list that `lockstep workers` shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using Role = WorkerState::Role;
using Listed = std::tuple<Role, int, int64_t, int64_t>;  // Rank, pid, bytes of weights.

std::vector<Listed> list(VirtualCluster& cluster) {
  std::vector<Listed> listed;
  for (const WorkerState& state : cluster.core().workers(cluster.now())) {
    listed.emplace_back(state.role, state.rank, state.pid, state.weight_bytes);
  }
  return listed;
}

int64_t pid_of(LinkId link) { return 100 + static_cast<int64_t>(link); }

TEST(WorkersTest, WorkersAreListedByRankWithTheirRoles) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = cluster.join();
  EXPECT_THAT(list(cluster), ElementsAre(Listed(Role::kWaiting, -1, pid_of(first), 0)));
  const LinkId second = cluster.join();
  cluster.want_group();
  ASSERT_TRUE(cluster.formed());
  cluster::Hello hello = VirtualCluster::default_hello();
  hello.set_spare(true);
  const LinkId spare = cluster.join(hello);
  cluster.open();  // This worker has sent nothing, and is not listed.
  EXPECT_THAT(list(cluster), ElementsAre(Listed(Role::kServing, 0, pid_of(first), 1'000),
                                         Listed(Role::kServing, 1, pid_of(second), 1'000),
                                         Listed(Role::kSpare, -1, pid_of(spare), 0)));

  cluster.worker(spare).loads = false;
  cluster.hang_up(first);
  EXPECT_EQ(std::get<Role>(list(cluster)[0]), Role::kWaiting) << "no group is needed yet";
  cluster.want_group();
  EXPECT_THAT(list(cluster), ElementsAre(Listed(Role::kLoading, 0, pid_of(spare), 0),
                                         Listed(Role::kLoading, 1, pid_of(second), 1'000)));
}

TEST(WorkersTest, TimesCountFromTheWorkersMessages) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster.join();
  cluster.pass(5'000);
  const WorkerState state = cluster.core().workers(cluster.now()).at(0);
  EXPECT_EQ(state.joined_ms, 5'000);
  EXPECT_LE(state.heard_ms, 250);
}

}  // namespace
}  // namespace lockstep::testing
