// SPDX-License-Identifier: Apache-2.0
// The rows of each step, in small cases worked out by hand.
#include "coordinator/scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/scheduler/bench.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr SchedulerLimits kRoomy = {
    .rows = 64, .prefill_chunk = 8, .running = 8, .outputs = 8, .pages = 100, .page_tokens = 4};

TEST(SchedulerTest, PromptsAreComputedInChunksBesideDecoding) {
  Bench bench(kRoomy);
  Sequence* a = bench.add(3, 10);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 3)));
  Sequence* b = bench.add(20, 3);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 8)));
  Sequence* c = bench.add(6, 3);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 4), Pair(c, 4)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 1), Pair(c, 2)));
}

TEST(SchedulerTest, SequencesLeaveAsSoonAsTheyAreDoneAndTheirPagesAreFree) {
  Bench bench(kRoomy);
  Sequence* a = bench.add(4, 1);
  Sequence* b = bench.add(4, 2);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 4), Pair(b, 4)));
  EXPECT_EQ(bench.scheduler().running(), 1);
  EXPECT_EQ(bench.scheduler().pages().available(), 99);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(b, 1)));
  EXPECT_EQ(bench.scheduler().pages().available(), 100);
  EXPECT_THAT(bench.step(), IsEmpty());
}

TEST(SchedulerTest, RunningSequencesAreBoundedByRowsOutputsAndSlots) {
  for (int limit = 0; limit < 3; ++limit) {
    SchedulerLimits limits = kRoomy;
    (limit == 0 ? limits.rows : limit == 1 ? limits.outputs : limits.running) = 2;
    Bench bench(limits);
    for (int i = 0; i < 5; ++i) bench.add(1, 3);
    bench.step();
    bench.step();
    EXPECT_EQ(bench.scheduler().running(), 2);
    for (int i = 0; i < 30; ++i) bench.step();
    EXPECT_EQ(bench.scheduler().running() + bench.scheduler().waiting(), 0);
  }
}

TEST(SchedulerTest, TheYoungestSequenceGivesUpItsPagesAndIsFirstInTheQueue) {
  SchedulerLimits limits = kRoomy;
  limits.pages = 3;
  Bench bench(limits);
  Sequence* a = bench.add(4, 9);
  Sequence* b = bench.add(3, 10);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 4), Pair(b, 3)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 1)));
  Sequence* c = bench.add(1, 10);
  // b needs a second page and none is free. It is the youngest, so it waits with its pages.
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1)));
  EXPECT_EQ(bench.scheduler().preemptions(), 0);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1)));
  // a needs a third page: b gives up its pages, and c must not overtake b.
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1)));
  EXPECT_EQ(bench.scheduler().preemptions(), 1);
  EXPECT_EQ(b->state(), Sequence::State::kPreempted);
  EXPECT_EQ(c->state(), Sequence::State::kWaiting);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1)));
  EXPECT_EQ(a->state(), Sequence::State::kFinished);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(b, 5), Pair(c, 1))) << "b's prompt and two tokens";
}

TEST(SchedulerTest, AWaitingPromptIsNotStartedWithoutPagesForAllOfIt) {
  SchedulerLimits limits = kRoomy;
  limits.pages = 10;
  Bench bench(limits);
  Sequence* a = bench.add(24, 1);  // Six pages, two at a time.
  Sequence* b = bench.add(20, 1);  // Five pages: more than a leaves free.
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(b, 8)));
}

TEST(SchedulerTest, RemovingAWaitingOrPreemptedSequenceLeaksNothing) {
  SchedulerLimits limits = kRoomy;
  limits.pages = 2;
  Bench bench(limits);
  Sequence* a = bench.add(4, 5);
  Sequence* b = bench.add(4, 5);
  bench.step();
  bench.step();
  EXPECT_EQ(b->state(), Sequence::State::kPreempted);
  Sequence* c = bench.add(4, 5);
  bench.scheduler().remove(b);
  bench.scheduler().remove(c);
  EXPECT_EQ(bench.scheduler().waiting(), 0);
  bench.scheduler().remove(a);
  EXPECT_EQ(bench.scheduler().pages().available(), 2);
  EXPECT_THAT(bench.step(), IsEmpty());
}

TEST(SchedulerTest, ASequenceThatOutgrowsItsRotaryFrequenciesIsComputedAgainInItsSlot) {
  SchedulerLimits limits = kRoomy;
  limits.rope = {.lengths = {10}};
  Bench bench(limits);
  Sequence* a = bench.add(9, 10);
  Sequence* b = bench.add(3, 20);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 3)));
  const int32_t slot = a->slot();
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 1)));
  EXPECT_EQ(a->rope_length(), 9) << "as it was when it began";
  EXPECT_EQ(a->length(), 11);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 8), Pair(b, 1)));
  EXPECT_EQ(a->rope_length(), 11);
  EXPECT_EQ(a->slot(), slot);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 3), Pair(b, 1)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 1)));
  EXPECT_EQ(bench.scheduler().preemptions(), 0);
}

TEST(SchedulerTest, APrefixIsComputedInOneStepForAnyChunkAndIsNotShared) {
  Bench bench(kRoomy);
  Sequence* a = bench.add(3, 20);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 3)));
  Sequence* b = bench.add(30, 5);
  Sequence* c = bench.add(request_of(7, 40, 5), {.rows = 37})[0];
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 6), Pair(c, 37)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 1), Pair(c, 3)));
  Sequence* d = bench.add(request_of(7, 40, 5), {.rows = 37})[0];
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 1), Pair(c, 1), Pair(d, 37)));
}

TEST(SchedulerTest, RotaryFrequenciesOfThePromptsLengthDoNotChange) {
  SchedulerLimits limits = kRoomy;
  limits.rope = {.of_prompt = true, .lengths = {10}};
  Bench bench(limits);
  Sequence* a = bench.add(8, 10);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 8)));
  for (int i = 0; i < 6; ++i) EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1)));
  EXPECT_EQ(a->rope_length(), 8);
}

TEST(SchedulerTest, StepsNameOnlyNewPagesAndEachSequenceBeginsItsSlotAnew) {
  Bench bench(kRoomy);
  Sequence* a = bench.add(6, 10);
  const auto next = [&](uint64_t number) {
    const Batch batch = bench.scheduler().schedule();
    const cluster::Step step = make_step(batch, number);
    bench.scheduler().computed(batch, 0);
    for (Sequence* sequence : batch.sequences) {
      if (sequence->remaining() == 0) sequence->append(7);
    }
    return step.sequences(0);
  };
  const cluster::StepSequence first = next(1);
  EXPECT_TRUE(first.begins());
  EXPECT_EQ(first.pages_size(), 2);
  const cluster::StepSequence second = next(2), third = next(3), fourth = next(4);
  for (const cluster::StepSequence& later : {second, third, fourth}) {
    EXPECT_FALSE(later.begins());
    EXPECT_EQ(later.slot(), first.slot());
  }
  EXPECT_EQ(second.pages_size() + third.pages_size(), 0);
  EXPECT_EQ(fourth.pages_size(), 1) << "position 8 needs a third page";
  bench.scheduler().remove(a);
  bench.add(3, 10);
  const cluster::StepSequence other = next(5);
  EXPECT_EQ(other.slot(), first.slot());
  EXPECT_TRUE(other.begins());
}

}  // namespace
}  // namespace lockstep
