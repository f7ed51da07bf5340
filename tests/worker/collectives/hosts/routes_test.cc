// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/hosts/routes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/network/host_group.h"

namespace lockstep {
namespace {

TEST(RoutesTest, EachPartIsSentOnceToEachOtherHostAndBothEndsAgree) {
  for (const std::vector<int>& hosts : testing::all_host_groups(6)) {
    SCOPED_TRACE(testing::text_of(hosts));
    const int ranks = static_cast<int>(hosts.size());
    const size_t other_hosts = std::set<int>(hosts.begin(), hosts.end()).size() - 1;
    for (int rank = 0; rank < ranks; ++rank) {
      std::set<int> reached;
      for (const Route& route : routes_of(hosts, rank)) {
        ASSERT_NE(hosts[route.rank], hosts[rank]);
        EXPECT_TRUE(!route.sends || reached.insert(hosts[route.rank]).second);
        const Route back{.rank = rank, .sends = route.receives, .receives = route.sends};
        const std::vector<Route> others = routes_of(hosts, route.rank);
        EXPECT_EQ(std::ranges::count(others, back), 1);
      }
      EXPECT_EQ(reached.size(), other_hosts);
    }
  }
}

TEST(RoutesTest, ReceivingIsSplitAmongTheRanksOfAHost) {
  const std::vector<int> hosts = {0, 0, 1, 1};
  const std::vector<Route> first = {{.rank = 2, .sends = true, .receives = true}};
  const std::vector<Route> second = {{.rank = 3, .sends = true, .receives = true}};
  EXPECT_EQ(routes_of(hosts, 0), first);
  EXPECT_EQ(routes_of(hosts, 1), second);
}

TEST(RoutesTest, RanksAreOrderedByHost) {
  EXPECT_EQ(by_host(std::vector<int>{4, 1, 4, 0, 1}), (std::vector<int>{0, 2, 1, 4, 3}));
}

}  // namespace
}  // namespace lockstep
