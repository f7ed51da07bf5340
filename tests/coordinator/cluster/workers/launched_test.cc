// SPDX-License-Identifier: Apache-2.0
// Workers that the coordinator starts: when they are started, killed and started again, and how
// their ends are classified.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LaunchedTest : public ::testing::Test {
 protected:
  LaunchedTest() {
    cluster_.want_group();
    cluster_.pass(50);
  }

  static ClusterCoreOptions options() {
    ClusterCoreOptions options = VirtualCluster::default_options();
    options.launch = true;
    return options;
  }
  static cluster::Hello hello(int index, int pid) {
    cluster::Hello hello = VirtualCluster::default_hello();
    hello.set_preferred_rank(index);
    hello.set_pid(pid);
    return hello;
  }
  LinkId start(int index, int pid) {
    cluster_.process_started(index, pid);
    return cluster_.join(hello(index, pid));
  }
  void form() {
    first_ = start(0, 50);
    second_ = start(1, 51);
    cluster_.take_started();
    ASSERT_TRUE(cluster_.formed());
  }
  // True if the group after this end of worker 1 reports that it follows a kill.
  bool follows_a_kill(const ProcessEnd& end) {
    cluster_.process_exited(1, end);
    cluster_.want_group();
    cluster_.pass(50);
    start(1, 52);
    EXPECT_TRUE(cluster_.formed());
    return cluster_.info().follows_a_kill;
  }

  const ProcessEnd killed_ = {.how = "killed by signal 9", .from_outside = true};
  VirtualCluster cluster_{options()};
  LinkId first_ = 0;
  LinkId second_ = 0;
};

TEST_F(LaunchedTest, EveryWorkerIsStartedOnce) {
  EXPECT_THAT(cluster_.take_started(), ElementsAre(0, 1));
  cluster_.pass(5'000);
  EXPECT_THAT(cluster_.take_started(), IsEmpty());
}

TEST_F(LaunchedTest, ShutdownEndsTheGroupAndStartsNothingMore) {
  form();
  const std::string before = cluster_.log();
  cluster_.core().shutdown(cluster_.now());
  cluster_.settle();
  EXPECT_EQ(cluster_.lost(), "the cluster was shut down");
  cluster_.hang_up(first_);
  cluster_.process_exited(0, {.how = "exit code 0"});
  cluster_.want_group();
  cluster_.pass(10'000);
  EXPECT_FALSE(cluster_.formed());
  EXPECT_THAT(cluster_.take_started(), IsEmpty());
  EXPECT_EQ(cluster_.log(), before);  // An expected end is not logged.
}

TEST_F(LaunchedTest, ADeadWorkerIsStartedAgain) {
  form();
  cluster_.pass(60'000);
  cluster_.hang_up(second_);
  cluster_.process_exited(1, {.how = "killed by signal 9"});
  EXPECT_THAT(cluster_.log(), HasSubstr("worker 1 (pid 51) ended, killed by signal 9"));
  cluster_.want_group();
  cluster_.pass(50);
  EXPECT_THAT(cluster_.take_started(), ElementsAre(1));
  start(1, 52);
  EXPECT_TRUE(cluster_.formed());
}

TEST_F(LaunchedTest, TheGroupAfterAKillFromOutsideReportsIt) {
  form();
  cluster_.pass(60'000);
  EXPECT_FALSE(cluster_.info().follows_a_kill);
  cluster_.hang_up(second_);
  EXPECT_TRUE(follows_a_kill(killed_));
}

TEST_F(LaunchedTest, ACrashIsNotAKillFromOutside) {
  form();
  cluster_.pass(60'000);
  EXPECT_FALSE(follows_a_kill({.how = "killed by signal 11"}));
}

TEST_F(LaunchedTest, AKillByTheCoordinatorIsNotAKillFromOutside) {
  form();
  cluster_.worker(second_).beats = false;
  cluster_.pass(60'000);
  ASSERT_THAT(cluster_.take_killed(), ElementsAre(1));
  EXPECT_FALSE(follows_a_kill(killed_));
}

// The coordinator cancelled the worker's stream, and the worker ended before it was killed.
TEST_F(LaunchedTest, AnEndAfterTheCoordinatorCancelledTheStreamIsNotAKillFromOutside) {
  form();
  cluster_.worker(second_).beats = false;
  while (cluster_.worker(second_).open) cluster_.pass(1);
  EXPECT_FALSE(follows_a_kill({.how = "exit code 0", .from_outside = true}));
}

// The killed worker was started for the next group, so no request can be the cause.
TEST_F(LaunchedTest, AKillBetweenGroupsDoesNotCountForTheLastGroup) {
  form();
  cluster_.pass(60'000);
  cluster_.process_exited(1, {.how = "killed by signal 11"});
  cluster_.pass(50);
  start(1, 53);
  EXPECT_FALSE(follows_a_kill(killed_));
}

TEST_F(LaunchedTest, AWorkerThatDiedIsLostEvenIfItsStreamSeemsOpen) {
  form();
  cluster_.process_exited(1, {.how = "killed by signal 9"});
  EXPECT_THAT(cluster_.lost(), HasSubstr("rank 1 (pid 51) was lost: its process ended"));
}

TEST_F(LaunchedTest, ASilentWorkerIsKilledAndReplaced) {
  form();
  cluster_.worker(second_).beats = false;
  cluster_.pass(1'500);
  EXPECT_THAT(cluster_.take_killed(), ElementsAre(1));
  EXPECT_THAT(cluster_.take_started(), IsEmpty());  // The old process must end first.
  cluster_.process_exited(1, {.how = "killed by signal 9"});
  cluster_.pass(200);
  EXPECT_THAT(cluster_.take_started(), ElementsAre(1));
  EXPECT_THAT(cluster_.take_killed(), IsEmpty());
}

TEST_F(LaunchedTest, WorkersOfAnotherHostDoNotReplaceLaunchedWorkersThatAreAllDead) {
  form();
  cluster_.process_exited(0, {.how = "killed by signal 9"});
  cluster_.process_exited(1, {.how = "killed by signal 9"});
  cluster_.want_group();
  cluster::Hello elsewhere = hello(-1, 90);
  elsewhere.set_host("elsewhere");
  EXPECT_THAT(cluster_.worker(cluster_.join(elsewhere)).refusal(), HasSubstr("on another host"));
  EXPECT_THAT(cluster_.worker(cluster_.join(elsewhere)).refusal(), HasSubstr("on another host"));
  cluster_.pass(1'000);
  EXPECT_EQ(cluster_.worker(start(0, 60)).refusal(), "");
  start(1, 61);
  EXPECT_TRUE(cluster_.formed());
}

TEST_F(LaunchedTest, WorkersOfAnotherHostFormNoGroupBeforeLaunchedWorkersJoin) {
  cluster::Hello elsewhere = hello(-1, 90);
  elsewhere.set_host("elsewhere");
  const LinkId stranger = cluster_.join(elsewhere);
  cluster_.join(elsewhere);
  EXPECT_FALSE(cluster_.formed());
  start(0, 50);
  start(1, 51);
  EXPECT_TRUE(cluster_.formed());
  EXPECT_THAT(cluster_.worker(stranger).refusal(), HasSubstr("on another host"));
}

TEST_F(LaunchedTest, AWorkerThatWasNotLaunchedIsOnlyDisconnected) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster.join();
  const LinkId second = cluster.join();
  cluster.want_group();
  cluster.worker(second).beats = false;
  cluster.pass(5'000);
  EXPECT_FALSE(cluster.worker(second).open);
  EXPECT_THAT(cluster.take_killed(), IsEmpty());
}

TEST_F(LaunchedTest, AWorkerWhoseStreamEndedHasASecondToEndByItself) {
  form();
  cluster_.hang_up(second_);
  cluster_.pass(800);
  EXPECT_THAT(cluster_.take_killed(), IsEmpty());
  cluster_.pass(400);
  EXPECT_THAT(cluster_.take_killed(), ElementsAre(1));
}

TEST_F(LaunchedTest, AWorkerThatNeverJoinsIsKilled) {
  cluster_.process_started(0, 50);
  cluster_.process_started(1, 51);
  cluster_.join(hello(0, 50));
  cluster_.pass(9'900);
  EXPECT_THAT(cluster_.take_killed(), IsEmpty());
  cluster_.pass(200);
  EXPECT_THAT(cluster_.take_killed(), ElementsAre(1));
}

TEST_F(LaunchedTest, AWorkerIsNotKilledIfItJoinsBeforeItsStartIsReported) {
  cluster_.join(hello(0, 50));
  cluster_.process_started(0, 50);
  start(1, 51);
  cluster_.pass(20'000);
  EXPECT_THAT(cluster_.take_killed(), IsEmpty());
}

TEST_F(LaunchedTest, FiveQuickDeathsBeforeAFirstGroupAreHopeless) {
  for (int death = 0; death < 5; ++death) {
    EXPECT_EQ(cluster_.impossible(), "");
    cluster_.process_started(0, 100 + death);
    cluster_.process_exited(0, {.how = "exit code 2"});
    cluster_.pass(2'000);
  }
  EXPECT_EQ(cluster_.impossible(), "worker 0 died 5 times as soon as it started (exit code 2)");
}

TEST_F(LaunchedTest, QuickDeathsAfterAFirstGroupOnlyDelayTheNextStart) {
  form();
  cluster_.hang_up(second_);
  cluster_.want_group();
  int64_t longest = 0;
  for (int death = 0; death < 50; ++death) {
    cluster_.process_exited(1, {.how = "killed by signal 9"});
    const int64_t begin = cluster_.now();
    while (cluster_.take_started().empty()) cluster_.pass(50);
    longest = std::max(longest, cluster_.now() - begin);
    cluster_.process_started(1, 1'000 + death);
  }
  EXPECT_EQ(cluster_.impossible(), "");
  EXPECT_LE(longest, 5'050);
  EXPECT_GE(longest, 4'000);
  cluster_.join(hello(1, 1'049));
  EXPECT_TRUE(cluster_.formed());
}

TEST_F(LaunchedTest, AProcessThatCannotBeStartedIsTriedAgain) {
  form();
  cluster_.process_exited(1, {.how = "killed by signal 9"});
  cluster_.pass(500);
  EXPECT_THAT(cluster_.take_started(), ElementsAre(1));
  cluster_.process_exited(1, {.how = "could not be started: out of processes"});
  cluster_.pass(1'000);
  EXPECT_THAT(cluster_.take_started(), ElementsAre(1));
}

// ---- The status from waitpid() ----

ProcessEnd end_of(int signal, int code = 3) {
  const pid_t child = fork();
  if (child == 0) {
    std::signal(signal, SIG_DFL);
    raise(signal);
    _exit(code);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return process_end(status);
}

TEST(ProcessEndTest, SignalsThatEndProcessesCountAsKillsFromOutside) {
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGHUP}) {
    EXPECT_TRUE(end_of(signal).from_outside) << signal;
  }
  EXPECT_EQ(end_of(SIGKILL).how, "killed by signal 9");
}

TEST(ProcessEndTest, CrashesAndErrorsDoNotCountAsKillsFromOutside) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
    EXPECT_FALSE(end_of(signal).from_outside) << signal;
  }
  const ProcessEnd exited = end_of(SIGCHLD);  // SIGCHLD ends no process.
  EXPECT_FALSE(exited.from_outside);
  EXPECT_EQ(exited.how, "exit code 3");
}

TEST(ProcessEndTest, AWorkerThatIsAskedToEndHasExitCodeZero) {
  const ProcessEnd end = end_of(SIGCHLD, 0);
  EXPECT_TRUE(end.from_outside);
  EXPECT_EQ(end.how, "exit code 0");
}

}  // namespace
}  // namespace lockstep::testing
