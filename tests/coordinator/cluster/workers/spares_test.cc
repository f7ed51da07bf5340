// SPDX-License-Identifier: Apache-2.0
// Spares that cover a rank: they load its weights before it is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

cluster::Hello spare(const std::string& host = "here") {
  cluster::Hello hello = VirtualCluster::default_hello();
  hello.set_data_address("anywhere:1");
  hello.set_host(host);
  hello.set_spare(true);
  return hello;
}

// Three workers; the last one has the most bytes of weights.
class SparesTest : public ::testing::Test {
 protected:
  static ClusterCoreOptions options() {
    ClusterCoreOptions options = VirtualCluster::default_options();
    options.workers = 3;
    options.min_workers = 1;
    return options;
  }
  void form(const std::vector<std::string>& hosts = {"here", "here", "here"}) {
    for (int rank = 0; rank < 3; ++rank) {
      cluster::Hello hello = spare(hosts[rank]);
      hello.set_spare(false);
      links_[rank] = cluster_.join(hello, {.weight_bytes = 1'000 + rank});
    }
    cluster_.want_group();
    ASSERT_TRUE(cluster_.formed());
  }
  LinkId join_spare(VirtualWorker worker = {}, const cluster::Hello& hello = spare()) {
    const LinkId link = cluster_.join(hello, std::move(worker));
    cluster_.pass(kTickMs);
    return link;
  }
  WorkerState state_of(LinkId link) {
    for (WorkerState& state : cluster_.core().workers(cluster_.now())) {
      if (state.pid == 100 + static_cast<int64_t>(link)) return state;
    }
    return {};
  }
  void lose(int rank) {
    cluster_.hang_up(links_[rank]);
    cluster_.want_group();
  }
  int preloads_of(LinkId link) {
    return static_cast<int>(std::ranges::count_if(
        cluster_.worker(link).received, [](const auto& message) { return message.has_preload(); }));
  }

  VirtualCluster cluster_{options()};
  LinkId links_[3] = {};
};

TEST_F(SparesTest, ASpareCoversTheRankWithTheMostWeightsAndReplacesIt) {
  form();
  const LinkId idle = join_spare();
  EXPECT_EQ(cluster_.worker(idle).preload(), 2);
  EXPECT_EQ(state_of(idle).covers, 2);
  EXPECT_EQ(state_of(idle).weight_bytes, 1'000);
  EXPECT_THAT(cluster_.log(), HasSubstr("holds the weights of rank 2"));
  lose(2);
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.worker(idle).assignment().program().rank(), 2);
  EXPECT_THAT(cluster_.log(),
              HasSubstr("epoch 2: rank 2 is assigned to a spare that holds its weights"));
  EXPECT_EQ(state_of(idle).covers, -1);
}

TEST_F(SparesTest, APreloadHasTheProgramThatTheSpareGetsIfTheRankIsLost) {
  form();
  const LinkId idle = join_spare();
  const cluster::CoordinatorMessage sent = cluster_.worker(idle).received.back();
  EXPECT_EQ(sent.epoch(), 1u);
  EXPECT_EQ(sent.preload().hosts_size(), 3);
  EXPECT_EQ(sent.preload().loading_here(), 1);
  EXPECT_EQ(sent.preload().checkpoint(), "/models/one");
  lose(2);
  EXPECT_EQ(cluster_.worker(idle).assignment().program().SerializeAsString(),
            sent.preload().program().SerializeAsString());
}

TEST_F(SparesTest, SeveralSparesCoverDifferentRanksAndTheOneOfTheLostRankIsUsed) {
  form();
  const LinkId first = join_spare(), second = join_spare(), third = join_spare();
  EXPECT_EQ(cluster_.worker(first).preload(), 2);
  EXPECT_EQ(cluster_.worker(second).preload(), 1);
  EXPECT_EQ(cluster_.worker(third).preload(), 0);
  lose(1);
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.worker(second).assignment().program().rank(), 1);
  EXPECT_EQ(cluster_.worker(first).epoch, 0u);
  EXPECT_EQ(cluster_.worker(third).epoch, 0u);
}

TEST_F(SparesTest, ASpareAlsoReplacesARankThatItDoesNotCover) {
  form();
  const LinkId idle = join_spare();
  lose(0);
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.worker(idle).assignment().program().rank(), 0);
  EXPECT_THAT(cluster_.log(), Not(HasSubstr("is assigned to a spare that holds")));
}

TEST_F(SparesTest, ASpareCoversTheSameRankInTheNextGroupAndGetsItsPreloadAgain) {
  form();
  const LinkId first = join_spare(), second = join_spare();
  cluster_.pass(10'000);
  EXPECT_EQ(preloads_of(first), 1);
  lose(1);
  cluster_.pass(kTickMs);
  EXPECT_EQ(cluster_.worker(second).assignment().program().rank(), 1);
  EXPECT_EQ(preloads_of(first), 2);
  EXPECT_EQ(cluster_.worker(first).preload(), 2);
  EXPECT_GE(state_of(first).covers_ms, 10'000) << "it never dropped the weights";
}

TEST_F(SparesTest, ARankOfTheSparesOwnHostIsPreloadedFirst) {
  form({"one", "two", "two"});
  EXPECT_EQ(cluster_.worker(join_spare({}, spare("one"))).preload(), 0);
}

TEST_F(SparesTest, ARankWhoseWorkerWasNotLaunchedIsPreloadedFirst) {
  ClusterCoreOptions launching = options();
  launching.launch = true;
  VirtualCluster cluster(launching);
  cluster.pass(kTickMs);
  for (int index = 0; index < 3; ++index) {
    cluster.process_started(index, 500 + index);
    cluster::Hello hello = VirtualCluster::default_hello();
    hello.set_pid(500 + index);
    hello.set_preferred_rank(index);
    cluster.join(hello, {.weight_bytes = 1'000 + index});
  }
  cluster.want_group();
  const LinkId first = cluster.join(spare());
  cluster.pass(kTickMs);
  ASSERT_EQ(cluster.worker(first).preload(), 2);
  cluster.hang_up(3);  // Rank 2 is lost, and the spare replaces it.
  cluster.want_group();
  const LinkId second = cluster.join(spare());
  cluster.pass(kTickMs);
  EXPECT_EQ(cluster.worker(first).assignment().program().rank(), 2);
  EXPECT_EQ(cluster.worker(second).preload(), 2);
}

TEST_F(SparesTest, ASpareThatAsksForARankCoversIt) {
  form();
  cluster::Hello hello = spare();
  hello.set_preferred_rank(1);
  EXPECT_EQ(cluster_.worker(join_spare({}, hello)).preload(), 1);
}

// There is no rank for a worker that was restarted after a spare had taken its rank.
TEST_F(SparesTest, AWorkerWithoutARankCoversARankLikeASpare) {
  form();
  cluster::Hello hello = spare();
  hello.set_spare(false);
  hello.set_preferred_rank(1);  // Only spares preload the rank that they prefer.
  const LinkId other = join_spare({}, hello);
  EXPECT_EQ(cluster_.worker(other).preload(), 2);
  EXPECT_EQ(state_of(other).role, WorkerState::Role::kWaiting);
  EXPECT_EQ(state_of(other).covers, 2);
  EXPECT_THAT(cluster_.log(), HasSubstr("a worker (pid 104) holds the weights of rank 2"));
  lose(2);
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.worker(other).assignment().program().rank(), 2);
  EXPECT_EQ(cluster_.worker(links_[1]).assignment().program().rank(), 1);
}

// Both spares keep the weights that they have loaded, whatever rank they prefer.
TEST_F(SparesTest, SparesThatPreferNoExistingRankGetTheRanksThatTheyCover) {
  form();
  cluster::Hello hello = spare();
  hello.set_preferred_rank(7);
  const LinkId first = join_spare({}, hello), second = join_spare({}, hello);
  ASSERT_EQ(cluster_.worker(first).preload(), 2);
  ASSERT_EQ(cluster_.worker(second).preload(), 1);
  cluster_.hang_up(links_[1]);
  cluster_.hang_up(links_[2]);
  cluster_.want_group();
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.worker(first).assignment().program().rank(), 2);
  EXPECT_EQ(cluster_.worker(second).assignment().program().rank(), 1);
}

TEST_F(SparesTest, ASpareCoversNoRankOfAGroupThatWillGrow) {
  ClusterCoreOptions growing = options();
  growing.workers = 4;
  VirtualCluster cluster(growing);
  LinkId links[4];
  for (LinkId& link : links) link = cluster.join();
  cluster.want_group();
  cluster.core().note_demand(cluster.now(), Demand::kRuns);
  cluster.hang_up(links[3]);
  cluster.want_group();
  cluster.pass(1'500);
  ASSERT_EQ(cluster.info().ranks, 3);
  const LinkId idle = cluster.join(spare());
  cluster.pass(1'000);
  EXPECT_EQ(cluster.worker(idle).preload(), -1);
  EXPECT_EQ(cluster.lost(), "");
}

TEST_F(SparesTest, AWorkerThatIgnoresAPreloadStaysASpare) {
  form();
  const LinkId idle = join_spare({.preloads = false});
  cluster_.pass(60'000);
  EXPECT_EQ(preloads_of(idle), 1);
  EXPECT_EQ(state_of(idle).role, WorkerState::Role::kSpare);
  EXPECT_EQ(state_of(idle).covers, -1);
  EXPECT_EQ(cluster_.lost(), "");
  lose(1);
  ASSERT_TRUE(cluster_.formed());
  EXPECT_EQ(cluster_.worker(idle).assignment().program().rank(), 1);
}

TEST_F(SparesTest, AFailedPreloadIsLoggedOnceAndDoesNoHarm) {
  form();
  cluster::Failure failure;
  failure.set_message("rank 2: no room\nfor it");
  failure.set_code(static_cast<int>(absl::StatusCode::kResourceExhausted));
  const LinkId idle = join_spare({.failure = failure});
  const std::string line = "(pid 104) holds no rank's weights: rank 2: no room for it";
  EXPECT_THAT(cluster_.log(), HasSubstr(line));
  EXPECT_EQ(cluster_.lost(), "");
  cluster_.pass(10'000);
  EXPECT_EQ(preloads_of(idle), 1);
  const LinkId other = join_spare();  // No spare covers rank 2 so far.
  EXPECT_EQ(cluster_.worker(other).preload(), 2);
  cluster_.worker(idle).failure = failure;
  const size_t before = cluster_.log().size();
  lose(2);  // In the next group the spare is asked again.
  cluster_.pass(kTickMs);
  EXPECT_EQ(cluster_.worker(other).assignment().program().rank(), 2);
  EXPECT_EQ(preloads_of(idle), 2);
  EXPECT_THAT(cluster_.log().substr(before), Not(HasSubstr("no room")));
}

TEST_F(SparesTest, AnInvalidAnswerIsRefused) {
  form();
  const LinkId idle = join_spare({.weight_bytes = -1});
  EXPECT_THAT(cluster_.worker(idle).refusal(), HasSubstr("Preloaded.weight_bytes"));
  EXPECT_EQ(cluster_.lost(), "");
}

TEST_F(SparesTest, UnrequestedAnswersAreIgnored) {
  form();
  const LinkId idle = join_spare({.preloads = false});
  cluster::WorkerMessage answer;
  answer.set_epoch(9);
  answer.mutable_preloaded();
  cluster_.say(idle, answer);
  cluster_.say(links_[0], answer);
  EXPECT_EQ(state_of(idle).covers, -1);
  EXPECT_EQ(cluster_.lost(), "");
}

// A program may depend on its worker, for instance on the worker's measured speed.
TEST_F(SparesTest, ASpareThatDiffersGetsTheProgramThatItWouldRunInTheGroup) {
  ClusterCoreOptions uneven = options();
  const auto compile = uneven.compile;
  uneven.compile = [&](const std::vector<WorkerFacts>& workers) {
    auto programs = compile(workers);
    for (size_t rank = 0; rank < workers.size(); ++rank) {
      (*programs)[rank].set_model(workers[2].isa);
    }
    return programs;
  };
  VirtualCluster cluster(uneven);
  for (int rank = 0; rank < 3; ++rank) cluster.join();
  cluster.want_group();
  cluster::Hello hello = spare();
  hello.set_isa("another");
  hello.set_preferred_rank(2);
  const LinkId idle = cluster.join(hello);
  cluster.pass(kTickMs);
  EXPECT_EQ(cluster.worker(idle).received.back().preload().program().model(), "another");
}

}  // namespace
}  // namespace lockstep::testing
