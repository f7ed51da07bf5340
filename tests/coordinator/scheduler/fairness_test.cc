// SPDX-License-Identifier: Apache-2.0
// Fair shares of clients, priorities, and which sequence is preempted for which.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/scheduler/bench.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr SchedulerLimits kLimits = {.rows = 256,
                                     .prefill_chunk = 128,
                                     .running = 64,
                                     .outputs = 64,
                                     .pages = 1000,
                                     .page_tokens = 16};

EngineRequest of_client(const std::string& client, int64_t prompt_tokens, int32_t max_tokens,
                        int32_t priority = 0) {
  static int32_t seed = 0;
  EngineRequest request = request_of(++seed, prompt_tokens, max_tokens);
  request.client = client;
  request.priority = priority;
  return request;
}

// Runs steps until the sequence has its first token. Returns their number; -1: it has none.
int steps_until_first_token(Bench& bench, const Sequence* sequence) {
  for (int steps = 1; steps < 10'000; ++steps) {
    bench.step();
    if (sequence->generated_tokens() > 0) return steps;
  }
  return -1;
}

TEST(FairnessTest, ClientsShareTheRowsForPrompts) {
  Bench bench(kLimits);
  Sequence* a = bench.add(of_client("a", 600, 1))[0];
  Sequence* b = bench.add(of_client("b", 100, 1))[0];
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 64), Pair(b, 64)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 92), Pair(b, 36)));
}

TEST(FairnessTest, ClientsShareTheDrawsThatNeedAllLogits) {
  Bench bench(kLimits);
  Sequence* first = bench.add(of_client("first", 4, 300))[0];
  EngineRequest request = of_client("many", 4, 300);
  request.n = 20;
  const std::vector<Sequence*> many = bench.add(request);
  Sequence* other = bench.add(of_client("other", 4, 300))[0];
  bench.step();
  bench.step();
  FullDraws& full = bench.scheduler().full_draws();
  for (Sequence* sequence : many) full.note(sequence, true);
  full.note(other, true);
  std::map<Sequence*, int> draws;
  for (int step = 0; step < 20; ++step) {
    const auto rows = bench.step();
    EXPECT_EQ(rows.size(), 1 + kFullDraws);
    for (const auto& [sequence, count] : rows) draws[sequence] += static_cast<int>(count);
  }
  EXPECT_EQ(draws[first], 20);  // This sequence runs in every step.
  EXPECT_EQ(draws[other], 20);  // In each step its client has one of the draws from all logits.
  for (Sequence* sequence : many) EXPECT_NEAR(draws[sequence], 3, 1);
  for (Sequence* sequence : many) full.note(sequence, false);
  EXPECT_EQ(bench.step().size(), 22);
}

TEST(FairnessTest, FewSequencesStartInAStepWhoseFirstDrawsMayNeedAllLogits) {
  Bench bench(kLimits);
  EngineRequest request = of_client("many", 4, 300);
  request.n = 40;
  request.sampling = {.temperature = 1, .top_p = 0.9f, .logit_bias = {}};
  bench.add(request);
  request.sampling.top_p = 1;
  request.n = 1;
  request.client = "other";
  const Sequence* other = bench.add(request)[0];
  EXPECT_EQ(bench.step().size(), 1 + kFirstDraws);
  EXPECT_EQ(other->generated_tokens(), 1);
  EXPECT_EQ(bench.step().size(), 1 + 2 * kFirstDraws);
  EXPECT_EQ(bench.step().size(), 41);
}

TEST(FairnessTest, AClientsPromptsAreServedInTheirOrder) {
  Bench bench(kLimits);
  Sequence* a = bench.add(of_client("a", 200, 1))[0];
  bench.add(of_client("a", 200, 1));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 128)));
}

TEST(FairnessTest, AClientWithThousandsOfChoicesDelaysNoOther) {
  Bench bench(kLimits);
  for (int i = 0; i < 20; ++i) {
    EngineRequest request = of_client("many", 200, 300);
    request.n = 64;
    bench.add(request);
  }
  for (int i = 0; i < 100; ++i) bench.step();
  EXPECT_EQ(bench.scheduler().running(), 64);
  for (const std::string client : {"b", "c", "d"}) {
    Sequence* one = bench.add(of_client(client, 100, 50))[0];
    EXPECT_LE(steps_until_first_token(bench, one), 3) << client;
  }
}

TEST(FairnessTest, ClientsShareMemoryToo) {
  SchedulerLimits limits = kLimits;
  limits.pages = 60;
  Bench bench(limits);
  for (int i = 0; i < 40; ++i) bench.add(of_client("many", 40, 400));
  for (int i = 0; i < 50; ++i) bench.step();
  Sequence* one = bench.add(of_client("b", 100, 300))[0];
  EXPECT_LE(steps_until_first_token(bench, one), 3);
  for (int steps = 0; one->state() != Sequence::State::kFinished; ++steps) {
    ASSERT_LE(steps, 320) << "it makes progress beside the others";
    bench.step();
  }
}

TEST(FairnessTest, NoClientLosesItsEqualShare) {
  SchedulerLimits limits = kLimits;
  limits.running = 4;
  Bench bench(limits);
  for (const std::string client : {"a", "a", "b", "b", "a", "b", "c"}) {
    bench.add(of_client(client, 10, 1000));
  }
  for (int i = 0; i < 100; ++i) bench.step();
  EXPECT_EQ(bench.scheduler().running(), 4);
  EXPECT_EQ(bench.scheduler().preemptions(), 2) << "b's second for a's third, c's for one more";
}

TEST(FairnessTest, BetterPrioritiesAreServedFirst) {
  Bench bench(kLimits);
  Sequence* batch = bench.add(of_client("a", 500, 1, 1))[0];
  Sequence* usual = bench.add(of_client("a", 100, 1))[0];
  Sequence* urgent = bench.add(of_client("a", 100, 1, -5))[0];
  EXPECT_THAT(bench.step(), ElementsAre(Pair(urgent, 100), Pair(usual, 28)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(usual, 72), Pair(batch, 56)));
}

TEST(FairnessTest, APromptThatRunsWaitsForOneOfABetterPriority) {
  Bench bench(kLimits);
  Sequence* batch = bench.add(of_client("a", 500, 1, 1))[0];
  bench.step();
  Sequence* urgent = bench.add(of_client("b", 300, 1))[0];
  EXPECT_THAT(bench.step(), ElementsAre(Pair(urgent, 127), Pair(batch, 1)))
      << "the first that runs gets a row in every step, until the other runs";
  EXPECT_THAT(bench.step(), ElementsAre(Pair(urgent, 128)));
}

TEST(FairnessTest, ABetterPriorityPreemptsSequencesOfAWorseOneExceptTheOldest) {
  SchedulerLimits limits = kLimits;
  limits.running = 2;
  Bench bench(limits);
  Sequence* first = bench.add(of_client("a", 10, 1000, 1))[0];
  Sequence* second = bench.add(of_client("a", 10, 1000, 1))[0];
  bench.step();
  Sequence* urgent = bench.add(of_client("a", 10, 1000))[0];
  EXPECT_THAT(bench.step(), UnorderedElementsAre(Pair(urgent, 10), Pair(first, 1)));
  EXPECT_EQ(second->state(), Sequence::State::kPreempted);
}

TEST(FairnessTest, ASequenceWithoutRoomIsNotOvertakenForever) {
  SchedulerLimits limits = kLimits;
  limits.pages = 40;
  Bench bench(limits);
  bench.add(of_client("a", 100, 60));
  bench.step();
  Sequence* large = bench.add(of_client("b", 600, 1))[0];
  for (int i = 0; i < 70 && large->state() == Sequence::State::kWaiting; ++i) {
    bench.add(of_client("c", 10, 5));
    bench.step();
  }
  EXPECT_EQ(large->state(), Sequence::State::kRunning);
}

TEST(FairnessTest, NoSequenceIsPreemptedForOneThatStillWouldNotFit) {
  SchedulerLimits limits = kLimits;
  limits.pages = 40;
  Bench bench(limits);
  bench.add(of_client("a", 300, 300));
  for (int i = 0; i < 5; ++i) bench.add(of_client("b", 20, 20));
  for (int i = 0; i < 4; ++i) bench.step();
  bench.add(of_client("c", 600, 1));
  bench.step();
  EXPECT_EQ(bench.scheduler().preemptions(), 0);
}

}  // namespace
}  // namespace lockstep
