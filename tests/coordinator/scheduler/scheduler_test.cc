// SPDX-License-Identifier: Apache-2.0
// Which rows run when, on small cases worked out by hand.
#include "coordinator/scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/helpers.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// A scheduler whose steps draw token 7 at every output.
class Bench {
 public:
  explicit Bench(const SchedulerLimits& limits) : scheduler_(limits) {}

  Sequence* add(int64_t prompt_tokens, int32_t max_tokens) {
    requests_.push_back(std::make_unique<PreparedRequest>(
        request_of(static_cast<int32_t>(requests_.size()), prompt_tokens, max_tokens), 100));
    sequences_.push_back(std::make_unique<Sequence>(*requests_.back(), 0, 1000, nullptr, nullptr));
    scheduler_.add(sequences_.back().get());
    return sequences_.back().get();
  }

  // One step; (sequence, rows) in its order.
  std::vector<std::pair<Sequence*, int64_t>> step() {
    const Batch batch = scheduler_.schedule();
    std::vector<std::pair<Sequence*, int64_t>> rows;
    for (const BatchItem& item : batch.items) {
      rows.emplace_back(item.sequence, item.rows);
      item.sequence->advance(item.rows);
      if (item.sequence->remaining() > 0) continue;
      if (item.sequence->append(7)) scheduler_.remove(item.sequence);
    }
    return rows;
  }

  Scheduler& scheduler() { return scheduler_; }

 private:
  std::vector<std::unique_ptr<PreparedRequest>> requests_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  Scheduler scheduler_;
};

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
  EXPECT_EQ(bench.scheduler().pages().free(), 99);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(b, 1)));
  EXPECT_EQ(bench.scheduler().pages().free(), 100);
  EXPECT_THAT(bench.step(), IsEmpty());
}

TEST(SchedulerTest, NoMoreRunThanThereAreRowsOutputsOrPlaces) {
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

TEST(SchedulerTest, TheYoungestGivesUpItsPagesAndIsFirstInTheQueue) {
  SchedulerLimits limits = kRoomy;
  limits.pages = 3;
  Bench bench(limits);
  Sequence* a = bench.add(4, 9);
  Sequence* b = bench.add(3, 10);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 4), Pair(b, 3)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 1)));
  Sequence* c = bench.add(1, 10);
  // b needs a second page, none is free, and it is the youngest: it waits with what it has.
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1)));
  EXPECT_EQ(bench.scheduler().preemptions(), 0);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1)));
  // a needs a third page: b gives up its own, and c must not overtake it.
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
  Sequence* b = bench.add(20, 1);  // Five: more than a will leave.
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(b, 8)));
}

TEST(SchedulerTest, RemovingAWaitingOrPreemptedSequenceLeavesNothingBehind) {
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
  EXPECT_EQ(bench.scheduler().pages().free(), 2);
  EXPECT_THAT(bench.step(), IsEmpty());
}

TEST(SchedulerTest, StepsNameNewPagesOnlyAndASlotBeginsWithEachSequence) {
  Bench bench(kRoomy);
  Sequence* a = bench.add(6, 10);
  const auto next = [&](uint64_t number) {
    const Batch batch = bench.scheduler().schedule();
    const cluster::Step step = make_step(batch, number);
    for (const BatchItem& item : batch.items) {
      item.sequence->advance(item.rows);
      if (item.sequence->remaining() == 0) item.sequence->append(7);
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
