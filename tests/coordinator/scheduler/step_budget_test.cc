// SPDX-License-Identifier: Apache-2.0
// The number of prompt rows in a step, with and without sequences in decode, on a machine whose
// steps take 100 ms plus 1 ms per row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/scheduler/bench.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr SchedulerLimits kLimits = {.rows = 640,
                                     .prefill_chunk = 512,
                                     .running = 64,
                                     .outputs = 64,
                                     .pages = 1000,
                                     .page_tokens = 16,
                                     .step_budget_ns = 200'000'000};

// A sequence in decode, on a scheduler that knows the cost of prompts.
Sequence* decoding(Bench& bench) {
  bench.take_time(true);
  bench.add(500, 1);
  bench.step();
  bench.add(60, 1);
  bench.step();
  Sequence* sequence = bench.add(5, 900);
  for (int i = 0; i < 40; ++i) bench.step();
  return sequence;
}

TEST(StepBudgetTest, APromptGetsTheTimeThatDecodeLeaves) {
  Bench bench(kLimits);
  Sequence* a = decoding(bench);
  Sequence* b = bench.add(800, 3);
  int64_t largest = 0;
  while (b->remaining() > 1) {
    const auto rows = bench.step();
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_THAT(rows[0], Pair(a, 1));
    largest = std::max(largest, rows[1].second);
  }
  EXPECT_NEAR(static_cast<double>(largest), 96, 4);
}

TEST(StepBudgetTest, APromptGetsTheWholeChunkWithoutDecode) {
  Bench bench(kLimits);
  bench.scheduler().remove(decoding(bench));
  Sequence* b = bench.add(800, 3);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(b, 512)));
}

TEST(StepBudgetTest, PromptsOfTwoClientsGetFourBudgetsWithoutDecode) {
  SchedulerLimits limits = kLimits;
  limits.step_budget_ns = 75'000'000;
  Bench bench(limits);
  bench.scheduler().remove(decoding(bench));
  bench.add(800, 3);
  EngineRequest request = request_of(77, 800, 3);
  request.client = "other";
  bench.add(request);
  int64_t rows = 0;
  for (const auto& [sequence, count] : bench.step()) rows += count;
  // The limit is not four budgets, 4 x 75 ms, but the time of four shortest steps, 4 x 101 ms,
  // because that is longer.
  EXPECT_NEAR(static_cast<double>(rows), 300, 12);
}

TEST(StepBudgetTest, SixteenRowsAreForPromptsEvenIfDecodeTakesTheBudget) {
  SchedulerLimits limits = kLimits;
  limits.step_budget_ns = 1'000'000;
  Bench bench(limits);
  Sequence* a = decoding(bench);
  Sequence* b = bench.add(10, 3);
  Sequence* c = bench.add(800, 3);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 10), Pair(c, 6)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 1), Pair(c, 16)));
}

TEST(StepBudgetTest, PromptsBesideDecodeAreSmallBeforeAnyTimeIsKnown) {
  Bench bench(kLimits);
  Sequence* a = bench.add(5, 900);
  bench.step();
  Sequence* b = bench.add(800, 3);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 16)));
}

TEST(StepBudgetTest, APromptGetsTheChunkBesideDecodeWithoutABudget) {
  SchedulerLimits limits = kLimits;
  limits.step_budget_ns = 0;
  Bench bench(limits);
  Sequence* a = decoding(bench);
  Sequence* b = bench.add(800, 3);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 512)));
}

}  // namespace
}  // namespace lockstep
