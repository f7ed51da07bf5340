// SPDX-License-Identifier: Apache-2.0
// The speeds that decide uneven shards: the configured ones, or the first measured ones.
#include "coordinator/cluster/workers/speeds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

cluster::Hello hello_of(const std::string& host, double read_rate) {
  cluster::Hello hello = VirtualCluster::default_hello();
  hello.set_host(host);
  hello.set_data_address(host + ":1");
  hello.set_read_rate(read_rate);
  return hello;
}

std::vector<double> chosen(Speeds& speeds, const std::vector<cluster::Hello>& hellos) {
  std::vector<const cluster::Hello*> ranks;
  for (const cluster::Hello& hello : hellos) {
    speeds.joined(hello);
    ranks.push_back(&hello);
  }
  return speeds.of(ranks).by_rank;
}

TEST(SpeedsTest, EqualWorkersOfOneHostHaveTheSameSpeedWhateverWasMeasured) {
  Speeds speeds({}, true);
  EXPECT_THAT(chosen(speeds, {hello_of("a", 10e9), hello_of("a", 3e9), hello_of("a", 30e9)}),
              ElementsAre(10e9, 10e9, 10e9));
}

TEST(SpeedsTest, NoiseBetweenHostsDoesNotCount) {
  Speeds speeds({}, true);
  EXPECT_THAT(chosen(speeds, {hello_of("a", 10e9), hello_of("b", 8.5e9), hello_of("c", 11.5e9)}),
              ElementsAre(10e9, 10e9, 10e9));
}

TEST(SpeedsTest, TheFirstMeasurementOfAHostIsKept) {
  Speeds speeds({}, true);
  chosen(speeds, {hello_of("a", 10e9), hello_of("b", 4e9)});
  // Both were restarted on a busy machine.
  EXPECT_THAT(chosen(speeds, {hello_of("a", 5e9), hello_of("b", 5e9)}), ElementsAre(10e9, 4e9));
}

TEST(SpeedsTest, WorkersWithMoreThreadsHaveTheirOwnSpeed) {
  Speeds speeds({}, true);
  cluster::Hello wide = hello_of("a", 18e9);
  wide.set_threads(8);
  EXPECT_THAT(chosen(speeds, {hello_of("a", 10e9), wide}), ElementsAre(10e9, 18e9));
}

TEST(SpeedsTest, AWorkerWithoutAMeasurementMakesShardsEven) {
  Speeds speeds({}, true);
  EXPECT_THAT(chosen(speeds, {hello_of("a", 10e9), hello_of("b", 0)}), ElementsAre(0, 0));
}

TEST(SpeedsTest, ConfiguredSpeedsPrecedeMeasuredOnes) {
  Speeds speeds({}, true);
  cluster::Hello a = hello_of("a", 10e9), b = hello_of("b", 4e9);
  a.set_speed(2);
  // A configured speed and the other worker's measurement have different units, so only
  // measurements count.
  EXPECT_THAT(chosen(speeds, {a, b}), ElementsAre(10e9, 4e9));
  b.set_speed(3);
  EXPECT_THAT(chosen(speeds, {a, b}), ElementsAre(2, 3));
  Speeds given({8, 4}, true);
  EXPECT_THAT(chosen(given, {a, b}), ElementsAre(8, 4));
  EXPECT_THAT(chosen(given, {a}), ElementsAre(0));  // Speeds are given for two ranks.
}

TEST(SpeedsTest, MeasurementsAreIgnoredIfBitsDependOnTheShards) {
  Speeds speeds({}, false);
  EXPECT_THAT(chosen(speeds, {hello_of("a", 10e9), hello_of("b", 4e9)}), ElementsAre(0, 0));
}

// ---- In a cluster, whose programs name the speeds they were compiled for ----

class MeasuredClusterTest : public ::testing::Test {
 protected:
  static ClusterCoreOptions options() {
    ClusterCoreOptions options = VirtualCluster::default_options();
    options.measured_speeds = true;
    options.compile = [compile = options.compile](const std::vector<WorkerFacts>& workers)
        -> absl::StatusOr<std::vector<program::Program>> {
      auto programs = compile(workers);
      for (size_t rank = 0; rank < workers.size(); ++rank) {
        (*programs)[rank].set_model(std::to_string(workers[rank].speed / 1e9).substr(0, 4));
      }
      return programs;
    };
    return options;
  }
  std::string speed_of(LinkId link) { return cluster_.worker(link).assignment().program().model(); }

  VirtualCluster cluster_{options()};
};

TEST_F(MeasuredClusterTest, ARestartedWorkerGetsTheSameProgramAndTheSurvivorKeepsItsOwn) {
  const LinkId slow = cluster_.join(hello_of("a", 4e9));
  const LinkId fast = cluster_.join(hello_of("b", 10e9));
  cluster_.want_group();
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(speed_of(slow), "4.00");
  EXPECT_EQ(speed_of(fast), "10.0");
  const auto before = cluster_.worker(slow).assignment().program().SerializeAsString();
  cluster_.hang_up(fast);
  cluster_.want_group();
  const LinkId again = cluster_.join(hello_of("b", 7e9));
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(speed_of(again), "10.0");
  EXPECT_EQ(cluster_.worker(slow).assignment().program().SerializeAsString(), before);
}

TEST_F(MeasuredClusterTest, AFasterWorkerThatJoinsLaterEndsNoGroup) {
  cluster_.join(hello_of("a", 10e9));
  cluster_.join(hello_of("b", 10e9));
  cluster_.want_group();
  cluster_.join(hello_of("c", 90e9));
  cluster_.pass(600'000);
  EXPECT_EQ(cluster_.lost(), "");
}

TEST_F(MeasuredClusterTest, WeightedShardsThatDoNotFitBecomeEven) {
  const LinkId slow = cluster_.join(hello_of("a", 4e9));
  const LinkId fast = cluster_.join(hello_of("b", 10e9),
                                    {.failure = failure_of(absl::StatusCode::kResourceExhausted)});
  cluster_.want_group();
  EXPECT_FALSE(cluster_.formed());
  EXPECT_THAT(cluster_.log(), HasSubstr("weighted shards do not fit in memory"));
  cluster_.pass(200);
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(speed_of(slow), "0.00");
  EXPECT_EQ(speed_of(fast), "0.00");
  EXPECT_EQ(cluster_.impossible(), "");
}

TEST_F(MeasuredClusterTest, EvenShardsThatDoNotFitAreHopeless) {
  cluster_.join(hello_of("a", 10e9));
  cluster_.join(hello_of("b", 10e9), {.failure = failure_of(absl::StatusCode::kResourceExhausted)});
  cluster_.want_group();
  EXPECT_THAT(cluster_.impossible(), HasSubstr("it went wrong"));
  EXPECT_THAT(cluster_.log(), Not(HasSubstr("how fast")));
}

}  // namespace
}  // namespace lockstep::testing
