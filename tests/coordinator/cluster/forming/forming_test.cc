// SPDX-License-Identifier: Apache-2.0
// How groups are formed, and which messages of workers are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/status.h"
#include "coordinator/cluster/forming/question.h"
#include "tests/coordinator/cluster/virtual_cluster.h"

namespace lockstep::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

cluster::Hello hello_of_rank(int rank) {
  cluster::Hello hello = VirtualCluster::default_hello();
  hello.set_preferred_rank(rank);
  return hello;
}

TEST(FormingTest, AGroupIsFormedWhenEnoughWorkersJoined) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster.want_group();
  cluster.join();
  EXPECT_FALSE(cluster.formed());
  cluster.join(VirtualCluster::default_hello(), {.pages = 7});
  ASSERT_TRUE(cluster.formed());
  EXPECT_EQ(cluster.info().ranks, 2);
  EXPECT_EQ(cluster.info().pages, 7);  // The minimum over the ranks.
  EXPECT_EQ(cluster.info().weight_bytes, 2'000);
  EXPECT_EQ(cluster.info().numeric_class, "f32.v1");
}

TEST(FormingTest, EveryRankGetsTheSameAssignmentExceptItsProgram) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = cluster.join();
  const LinkId second = cluster.join();
  cluster.want_group();
  cluster::Assignment a = cluster.worker(first).assignment();
  cluster::Assignment b = cluster.worker(second).assignment();
  EXPECT_EQ(a.program().rank(), 0);
  EXPECT_EQ(b.program().rank(), 1);
  EXPECT_EQ(a.checkpoint(), "/models/one");
  EXPECT_EQ(a.loading_here(), 2);
  EXPECT_THAT(a.hosts(), ElementsAre("here", "here"));
  EXPECT_GT(a.collective_timeout_ms(), 10'000);
  a.clear_program();
  b.clear_program();
  EXPECT_EQ(a.SerializeAsString(), b.SerializeAsString());
}

TEST(FormingTest, ARankGoesToTheWorkerThatAsksForIt) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId second = cluster.join(hello_of_rank(1));
  const LinkId first = cluster.join(hello_of_rank(0));
  cluster.want_group();
  EXPECT_EQ(cluster.worker(first).assignment().program().rank(), 0);
  EXPECT_EQ(cluster.worker(second).assignment().program().rank(), 1);
}

TEST(FormingTest, ASurvivorKeepsItsRankAndItsWeights) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = cluster.join();
  const LinkId second = cluster.join();
  cluster.want_group();
  cluster.hang_up(first);
  cluster.want_group();
  const LinkId third = cluster.join();
  ASSERT_TRUE(cluster.formed());
  EXPECT_EQ(cluster.worker(second).assignment().program().rank(), 1);
  EXPECT_EQ(cluster.worker(third).assignment().program().rank(), 0);
  EXPECT_EQ(cluster.worker(third).assignment().loading_here(), 1);
}

TEST(FormingTest, BeforeAGroupARestartedWorkerReplacesItsPredecessorWhoseStreamIsOpen) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster.join(hello_of_rank(0));
  const LinkId stale = cluster.join(hello_of_rank(1));
  const LinkId fresh = cluster.join(hello_of_rank(1));
  cluster.want_group();
  EXPECT_EQ(cluster.worker(fresh).epoch, 1u);
  EXPECT_EQ(cluster.worker(stale).epoch, 0u);
}

// A worker that prefers rank 3 has replaced rank 1. Then the old worker of rank 1 comes back.
TEST(FormingTest, ARestartedWorkerMovesNoSurvivorFromTheRankThatItAsksFor) {
  ClusterCoreOptions options = VirtualCluster::default_options();
  options.workers = 3;
  VirtualCluster cluster(options);
  LinkId links[4];
  for (int rank = 0; rank < 3; ++rank) links[rank] = cluster.join(hello_of_rank(rank));
  cluster.want_group();
  cluster.hang_up(links[1]);
  cluster.want_group();
  links[3] = cluster.join(hello_of_rank(3));
  ASSERT_TRUE(cluster.formed());
  ASSERT_EQ(cluster.worker(links[3]).assignment().program().rank(), 1);
  links[1] = cluster.join(hello_of_rank(1));
  cluster.hang_up(links[0]);
  cluster.want_group();
  ASSERT_TRUE(cluster.formed());
  EXPECT_EQ(cluster.worker(links[3]).assignment().program().rank(), 1);
  EXPECT_EQ(cluster.worker(links[2]).assignment().program().rank(), 2);
  EXPECT_EQ(cluster.worker(links[1]).assignment().program().rank(), 0);
}

TEST(FormingTest, ARestartedWorkerTakesItsRankThoughTheOldStreamIsStillOpen) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = cluster.join(hello_of_rank(0));
  const LinkId stale = cluster.join(hello_of_rank(1));
  cluster.want_group();
  ASSERT_TRUE(cluster.formed());
  const LinkId fresh = cluster.join(hello_of_rank(1));
  cluster.want_group();  // The group ended for another reason.
  ASSERT_TRUE(cluster.formed());
  EXPECT_EQ(cluster.worker(first).assignment().program().rank(), 0);
  EXPECT_EQ(cluster.worker(fresh).assignment().program().rank(), 1);
  EXPECT_EQ(cluster.worker(stale).epoch, 1u);
}

TEST(FormingTest, MessagesOfAnotherEpochAreDropped) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = cluster.join();
  cluster.join(VirtualCluster::default_hello(), {.loads = false});
  cluster.want_group();
  cluster::WorkerMessage late;
  late.set_epoch(99);
  late.mutable_ready()->set_pages(-1);
  cluster.say(first, late);
  late.mutable_failure()->set_message("of the past");
  cluster.say(first, late);
  EXPECT_EQ(cluster.worker(first).refusal(), "");
  EXPECT_EQ(cluster.lost(), "");
}

TEST(FormingTest, RanksThatLoadedDifferentCheckpointsAllLoadAgain) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId kept = cluster.join();
  const LinkId fresh = cluster.join(VirtualCluster::default_hello(), {.contents = "checkpoint 2"});
  cluster.worker(kept).received.clear();
  // The test answers for this worker, which has the old bytes until it is asked to reload.
  cluster.worker(kept).loads = false;
  cluster.want_group();
  cluster::WorkerMessage ready;
  ready.mutable_ready()->set_pages(5);
  ready.mutable_ready()->set_contents("checkpoint 1");
  ready.mutable_ready()->set_written_at("noon");
  cluster.say(kept, ready);
  EXPECT_FALSE(cluster.formed());
  EXPECT_THAT(cluster.log(), HasSubstr("/models/one was rewritten"));
  EXPECT_TRUE(cluster.worker(kept).assignment().reload());
  EXPECT_TRUE(cluster.worker(fresh).assignment().reload());
  EXPECT_EQ(cluster.worker(fresh).assignment().loading_here(), 2);
  ready.set_epoch(cluster.worker(kept).epoch);
  ready.mutable_ready()->set_contents("checkpoint 2");
  cluster.say(kept, ready);
  EXPECT_TRUE(cluster.formed());
}

TEST(FormingTest, CheckpointsThatDifferAfterLoadingAgainFailTheAttemptAndNotTheServer) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = cluster.join();
  cluster.join(VirtualCluster::default_hello(), {.contents = "checkpoint 2"});
  cluster.want_group();
  EXPECT_FALSE(cluster.formed());
  EXPECT_EQ(cluster.impossible(), "");
  cluster.worker(first).contents = "checkpoint 2";
  cluster.pass(500);
  EXPECT_TRUE(cluster.formed());
}

// ---- Messages that a worker may not send ----

TEST(HostileWorkerTest, AWorkerWithoutPagesIsRefusedByNameBeforeAGroupIsFormed) {
  for (const int64_t pages : {int64_t{0}, int64_t{-5}, INT64_MIN}) {
    VirtualCluster cluster(VirtualCluster::default_options());
    cluster.join();
    const LinkId liar = cluster.join(VirtualCluster::default_hello(), {.pages = pages});
    cluster.want_group();
    EXPECT_FALSE(cluster.formed());
    EXPECT_THAT(cluster.worker(liar).refusal(), HasSubstr("Ready.pages: must be 1 to"));
    EXPECT_THAT(cluster.log(), HasSubstr("refused rank 1 (pid 102)"));
    EXPECT_EQ(cluster.impossible(), "");
    cluster.join();
    cluster.pass(200);
    EXPECT_TRUE(cluster.formed());
  }
}

TEST(HostileWorkerTest, ADuplicateOrExcessRankDoesNotDisturbAGroup) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId first = cluster.join(hello_of_rank(0));
  cluster.join(hello_of_rank(1));
  cluster.want_group();
  for (const int rank : {0, 7, 65'536}) {
    EXPECT_EQ(cluster.worker(cluster.join(hello_of_rank(rank))).epoch, 0u);
  }
  EXPECT_NE(cluster.worker(cluster.join(hello_of_rank(65'537))).refusal(), "");
  cluster.pass(600'000);
  cluster.step(1);
  EXPECT_TRUE(cluster.replied());
  EXPECT_EQ(cluster.lost(), "");
  cluster.hang_up(first);
  cluster.want_group();
  EXPECT_TRUE(cluster.formed());  // The second worker that requests rank 0 replaces the first.
}

TEST(HostileWorkerTest, AWorkerOfAnotherProtocolIsRefused) {
  VirtualCluster cluster(VirtualCluster::default_options());
  cluster::Hello hello = VirtualCluster::default_hello();
  hello.set_protocol(1);
  EXPECT_THAT(cluster.worker(cluster.join(hello)).refusal(), HasSubstr("protocol 1"));
}

TEST(HostileWorkerTest, NumbersInHelloAreChecked) {
  const auto refused = [](const std::function<void(cluster::Hello&)>& change) {
    VirtualCluster cluster(VirtualCluster::default_options());
    cluster::Hello hello = VirtualCluster::default_hello();
    change(hello);
    return cluster.worker(cluster.join(hello)).refusal();
  };
  EXPECT_EQ(refused([](cluster::Hello&) {}), "");
  EXPECT_NE(refused([](cluster::Hello& h) { h.set_preferred_rank(-2); }), "");
  EXPECT_NE(refused([](cluster::Hello& h) { h.set_preferred_rank(INT32_MAX); }), "");
  EXPECT_NE(refused([](cluster::Hello& h) { h.set_memory_bytes(-1); }), "");
  EXPECT_NE(refused([](cluster::Hello& h) { h.set_threads(-1); }), "");
  EXPECT_NE(refused([](cluster::Hello& h) { h.set_pid(-1); }), "");
  EXPECT_NE(refused([](cluster::Hello& h) { h.set_speed(-1); }), "");
  EXPECT_NE(refused([](cluster::Hello& h) { h.set_read_rate(-1); }), "");
  EXPECT_NE(refused([](cluster::Hello& h) { h.set_host(std::string(1 << 20, 'x')); }), "");
}

TEST(HostileWorkerTest, AMessageBeforeHelloOrASecondHelloEndsTheStream) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId silent = cluster.open();
  cluster::WorkerMessage message;
  message.mutable_ready()->set_pages(1);
  cluster.say(silent, message);
  EXPECT_FALSE(cluster.worker(silent).open);

  const LinkId twice = cluster.join();
  *message.mutable_hello() = VirtualCluster::default_hello();
  cluster.say(twice, message);
  EXPECT_FALSE(cluster.worker(twice).open);
  EXPECT_EQ(cluster.core().joined(), 0);
}

TEST(HostileWorkerTest, AWorkerWithoutHelloIsDisconnectedAfterFiveSeconds) {
  VirtualCluster cluster(VirtualCluster::default_options());
  const LinkId silent = cluster.open();
  cluster.pass(4'900);
  EXPECT_TRUE(cluster.worker(silent).open);
  cluster.pass(200);
  EXPECT_FALSE(cluster.worker(silent).open);
}

class HostileAnswerTest : public ::testing::Test {
 protected:
  HostileAnswerTest() {
    cluster_.join();
    liar_ = cluster_.join();
    cluster_.want_group();
    cluster_.worker(liar_).steps = false;
  }

  // The reason of the group's loss if its rank 1 answers a step of one output with `answer`.
  std::string lost_by(const cluster::WorkerMessage& answer) {
    cluster::CoordinatorMessage step;
    step.mutable_step()->set_step(4);
    step.mutable_step()->add_outputs()->set_top_count(2);
    cluster_.core().exchange(cluster_.now(), std::move(step));
    cluster_.settle();
    cluster_.say(liar_, answer);
    return cluster_.lost();
  }

  static cluster::WorkerMessage result() {
    cluster::WorkerMessage message;
    message.mutable_result()->set_step(4);
    message.mutable_result()->add_outputs();
    return message;
  }

  static void add_top(cluster::WorkerMessage* message, int32_t id) {
    cluster::CandidateList* top = message->mutable_result()->mutable_outputs(0)->mutable_top();
    top->add_ids(id);
    top->add_logits(1);
    top->add_edited(1);
  }

  VirtualCluster cluster_{VirtualCluster::default_options()};
  LinkId liar_ = 0;
};

TEST_F(HostileAnswerTest, AnHonestAnswerIsAccepted) {
  cluster::WorkerMessage message = result();
  add_top(&message, 127);
  EXPECT_EQ(lost_by(message), "");
  EXPECT_TRUE(cluster_.replied());
}

TEST_F(HostileAnswerTest, AnAnswerToAnotherStepEndsTheGroup) {
  cluster::WorkerMessage message = result();
  message.mutable_result()->set_step(5);
  EXPECT_THAT(lost_by(message), HasSubstr("StepResult.step: must be 4, found 5"));
}

TEST_F(HostileAnswerTest, MissingOutputsEndTheGroup) {
  cluster::WorkerMessage message = result();
  message.mutable_result()->clear_outputs();
  EXPECT_THAT(lost_by(message), HasSubstr("StepResult.outputs"));
}

TEST_F(HostileAnswerTest, AnIdOutsideOfTheVocabularyEndsTheGroup) {
  cluster::WorkerMessage message = result();
  add_top(&message, 128);
  EXPECT_THAT(lost_by(message), HasSubstr("Candidate.id: must be 0 to 127, found 128"));
}

TEST_F(HostileAnswerTest, MoreCandidatesThanAskedForEndTheGroup) {
  cluster::WorkerMessage message = result();
  for (int i = 0; i < 3; ++i) add_top(&message, i);
  EXPECT_THAT(lost_by(message), HasSubstr("Candidates.top: must be 0 to 2, found 3"));
}

TEST_F(HostileAnswerTest, LogitsOfAnotherSizeEndTheGroup) {
  cluster::WorkerMessage message = result();
  message.mutable_result()->mutable_outputs(0)->set_logits(std::string(129 * 4, '\0'));
  EXPECT_THAT(lost_by(message), HasSubstr("must have at most 512 bytes, 4 per number, found 516"));
}

TEST_F(HostileAnswerTest, AnUnrequestedTraceEndsTheGroup) {
  cluster::WorkerMessage message = result();
  message.mutable_result()->mutable_trace();
  EXPECT_THAT(lost_by(message), HasSubstr("StepResult.trace: must be none"));
}

TEST_F(HostileAnswerTest, UnrequestedValuesEndTheGroup) {
  cluster::WorkerMessage message = result();
  message.mutable_result()->add_values();
  EXPECT_THAT(lost_by(message), HasSubstr("StepResult.values: must be none, found 1"));
}

// The program has three instructions; the valid trace has two of them.
using Lie = void (*)(cluster::StepTrace& trace);
struct LyingTrace {
  const char* name;
  const char* found;
  Lie lie;
};
constexpr int64_t kHuge = INT64_MAX;
const LyingTrace kLyingTraces[] = {
    {"AnInstructionThatDoesNotExist", "instructions", [](auto& t) { t.set_instructions(1, 3); }},
    {"AnInstructionBelowZero", "instructions", [](auto& t) { t.set_instructions(0, -1); }},
    {"AnInstructionTwice", "instructions", [](auto& t) { t.set_instructions(1, 0); }},
    {"MoreThanTheProgramHas", "instructions",
     [](auto& t) {
       for (int i = 0; i < 2; ++i) t.add_instructions(i);
     }},
    {"OneBeginTooFew", "begin_ns", [](auto& t) { t.mutable_begin_ns()->RemoveLast(); }},
    {"OneDurationTooMany", "duration_ns", [](auto& t) { t.add_duration_ns(1); }},
    {"NoWaits", "wait_ns", [](auto& t) { t.clear_wait_ns(); }},
    {"AnOverlap", "begin_ns", [](auto& t) { t.set_begin_ns(1, 19); }},
    {"ABeginBelowZero", "begin_ns", [](auto& t) { t.set_begin_ns(0, -kHuge); }},
    {"AnEndAfterTheStep", "duration_ns", [](auto& t) { t.set_duration_ns(1, 71); }},
    {"ADurationWithoutEnd", "duration_ns", [](auto& t) { t.set_duration_ns(1, kHuge); }},
    {"MoreWaitingThanTime", "wait_ns", [](auto& t) { t.set_wait_ns(0, 11); }},
    {"AStepWithoutEnd", "total_ns", [](auto& t) { t.set_total_ns(kHuge); }},
    {"ATotalBelowZero", "total_ns", [](auto& t) { t.set_total_ns(-1); }},
};

class LyingTraceTest : public ::testing::TestWithParam<LyingTrace> {
 protected:
  static absl::Status check(Lie lie) {
    Question question = {.kind = Question::Kind::kStep, .trace = true};
    cluster::WorkerMessage message;
    cluster::StepTrace& trace = *message.mutable_result()->mutable_trace();
    trace.set_total_ns(100);
    for (const int64_t i : {0, 2}) trace.add_instructions(static_cast<int>(i));
    for (const int64_t ns : {10, 30}) trace.add_begin_ns(ns);
    for (const int64_t ns : {10, 70}) trace.add_duration_ns(ns);
    for (const int64_t ns : {10, 0}) trace.add_wait_ns(ns);
    if (lie != nullptr) lie(trace);
    return check_answer(question, /*instructions=*/3, message);
  }
};

TEST_P(LyingTraceTest, IsRefusedWithTheNameOfTheField) {
  EXPECT_EQ(message_of(check(nullptr)), "");
  EXPECT_THAT(message_of(check(GetParam().lie)),
              HasSubstr(std::string("StepTrace.") + GetParam().found));
}

INSTANTIATE_TEST_SUITE_P(All, LyingTraceTest, ::testing::ValuesIn(kLyingTraces),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_F(HostileAnswerTest, ASecondAnswerEndsTheGroup) {
  EXPECT_EQ(lost_by(result()), "");
  cluster_.say(liar_, result());
  EXPECT_THAT(cluster_.lost(), HasSubstr("without a question"));
}

TEST_F(HostileAnswerTest, AnotherKindOfMessageEndsTheGroup) {
  cluster::WorkerMessage message;
  message.mutable_logits()->set_step(4);
  EXPECT_THAT(lost_by(message), HasSubstr("must be the result of step 4"));
}

TEST_F(HostileAnswerTest, LoadedBytesBelowZeroEndTheGroup) {
  cluster::WorkerMessage message;
  message.mutable_progress()->set_bytes_done(-1);
  EXPECT_THAT(lost_by(message), HasSubstr("LoadProgress.bytes_done"));
}

}  // namespace
}  // namespace lockstep::testing
