// SPDX-License-Identifier: Apache-2.0
// Groups with workers on several hosts: the addresses and keys that the workers get, and which
// workers may join.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

cluster::Hello on_host(const std::string& host, const std::string& data_address,
                       bool data_tls = false) {
  cluster::Hello hello = VirtualCluster::default_hello();
  hello.set_host(host);
  hello.set_data_address(data_address);
  hello.set_data_tls(data_tls);
  return hello;
}

TEST(HostsTest, WorkersOfSeveralHostsLearnEachOthersAddressesAndAKey) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = cluster.join(on_host("a", "10.0.0.1:1"));
  const LinkId second = cluster.join(on_host("b", "10.0.0.2:2"));
  cluster.want_group();
  EXPECT_TRUE(cluster.formed());  // A copy of the same files is accepted.
  for (const LinkId link : {first, second}) {
    const cluster::Assignment& assignment = cluster.worker(link).assignment();
    ASSERT_EQ(assignment.data_addresses_size(), 2);
    EXPECT_EQ(assignment.data_addresses(0), "10.0.0.1:1");
    EXPECT_EQ(assignment.data_addresses(1), "10.0.0.2:2");
    EXPECT_EQ(assignment.data_key(), "a-test-key");
  }
}

TEST(HostsTest, WorkersOfOneHostGetNoKey) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = cluster.join(on_host("a", "10.0.0.1:1"));
  cluster.join(on_host("a", "10.0.0.1:2"));
  cluster.want_group();
  EXPECT_TRUE(cluster.formed());
  EXPECT_EQ(cluster.worker(first).assignment().data_key(), "");
}

TEST(HostsTest, HostsWithDifferentCheckpointsFormNoGroup) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster.join(on_host("a", "10.0.0.1:1"), {.contents = "one"});
  cluster.join(on_host("b", "10.0.0.2:2"), {.contents = "another"});
  cluster.want_group();
  EXPECT_FALSE(cluster.formed());
  EXPECT_THAT(cluster.log(), HasSubstr("ranks 0 and 1 loaded different checkpoints"));
}

// Ready.contents identifies only a sample of the bytes, so on one host the files' times count, too.
TEST(HostsTest, AGroupThatLoadsRewrittenFilesHasOtherWeights) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = cluster.join();
  const LinkId second = cluster.join();
  cluster.want_group();
  const WeightsOrigin weights = cluster.info().weights;
  cluster.hang_up(first);
  const LinkId third = cluster.join();
  cluster.want_group();
  EXPECT_TRUE(cluster.info().weights.same_as(weights));
  cluster.hang_up(second);
  cluster.hang_up(third);
  for (int i = 0; i < 2; ++i) {
    cluster.join(VirtualCluster::default_hello(), {.written_at = "one o'clock"});
  }
  cluster.want_group();
  EXPECT_FALSE(cluster.info().weights.same_as(weights));
}

TEST(HostsTest, IfRanksOfOneHostReadFilesOfDifferentTimesTheyLoadAgain) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = cluster.join();
  cluster.join(VirtualCluster::default_hello(), {.written_at = "one o'clock"});
  cluster.want_group();
  EXPECT_FALSE(cluster.formed());
  EXPECT_TRUE(cluster.worker(first).assignment().reload());
}

TEST(HostsTest, AWorkerOfAnotherHostNeedsADataPortAndSoDoTheOthers) {
  for (const char* own : {"", "10.0.0.1:1"}) {
    VirtualCluster cluster(VirtualCluster::default_options());
    cluster.join(on_host("a", own));
    cluster.join(on_host("a", own));
    cluster.want_group();
    const LinkId other = cluster.join(on_host("b", *own == 0 ? "10.0.0.2:2" : ""));
    EXPECT_THAT(cluster.worker(other).refusal(),
                HasSubstr(*own == 0 ? "and they have no port for their data"
                                    : "and has no port for their data"));
  }
}

TEST(HostsTest, AGroupHasTlsBetweenAllItsHostsOrNone) {
  for (const bool tls : {false, true}) {
    VirtualCluster cluster(VirtualCluster::default_options());
    cluster.join(on_host("a", "10.0.0.1:1", tls));
    cluster.join(on_host("b", "10.0.0.2:2", tls));
    cluster.want_group();
    EXPECT_TRUE(cluster.formed());
    const LinkId other = cluster.join(on_host("c", "10.0.0.3:3", !tls));
    EXPECT_THAT(
        cluster.worker(other).refusal(),
        HasSubstr(tls ? "its data port uses plain text, its peers' data ports use TLS: start all"
                      : "its data port uses TLS, its peers' data ports use plain text: start all"));
  }
}

}  // namespace
}  // namespace lockstep::testing
