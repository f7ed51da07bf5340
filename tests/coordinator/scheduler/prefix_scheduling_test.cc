// SPDX-License-Identifier: Apache-2.0
// The pages that sequences share, in cases worked out by hand: hits, choices of one request, little
// memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/scheduler/bench.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr SchedulerLimits kRoomy = {
    .rows = 64, .prefill_chunk = 32, .running = 8, .outputs = 8, .pages = 100, .page_tokens = 4};

EngineRequest prompt_of(int64_t tokens, const std::string& client = "",
                        const std::string& salt = "") {
  EngineRequest request = request_of(1, tokens, 1);
  request.client = client;
  request.cache_salt = salt;
  return request;
}

TEST(PrefixSchedulingTest, ALaterSequenceComputesOnlyWhatIsNotCached) {
  Bench bench(kRoomy);
  bench.add(prompt_of(10));
  bench.step();
  EXPECT_EQ(bench.scheduler().pages().cached(), 2) << "the third page is not full";
  EXPECT_EQ(bench.scheduler().pages().available(), 100);
  Sequence* same = bench.add(prompt_of(10))[0];
  Sequence* longer = bench.add(prompt_of(15))[0];
  EXPECT_THAT(bench.step(), ElementsAre(Pair(same, 2), Pair(longer, 7)));
  EXPECT_EQ(longer->cached_tokens(), 8);
  EXPECT_EQ(bench.scheduler().pages().counts().queries, 35);
  EXPECT_EQ(bench.scheduler().pages().counts().hits, 16);
}

TEST(PrefixSchedulingTest, APromptWithRowsOfEmbeddingsIsNeitherCachedNorFound) {
  Bench bench(kRoomy);
  EngineRequest request = prompt_of(10);
  request.prompt_ids[8] = -1;
  request.prompt_embeds = {1, 2};
  bench.add(request);
  bench.step();
  EXPECT_EQ(bench.scheduler().pages().cached(), 0);
  bench.add(prompt_of(10));
  bench.step();
  Sequence* same = bench.add(request)[0];
  EXPECT_THAT(bench.step(), ElementsAre(Pair(same, 10)));
}

TEST(PrefixSchedulingTest, PagesAreSharedOnlyBetweenSequencesOfEqualRotaryFrequencies) {
  SchedulerLimits limits = kRoomy;
  limits.rope = {.lengths = {12}};
  Bench bench(limits);
  bench.add(prompt_of(10));
  bench.step();
  Sequence* longer = bench.add(prompt_of(15))[0];
  EXPECT_THAT(bench.step(), ElementsAre(Pair(longer, 15)));
  Sequence* short_one = bench.add(prompt_of(11))[0];
  Sequence* long_one = bench.add(prompt_of(14))[0];
  EXPECT_THAT(bench.step(), ElementsAre(Pair(short_one, 3), Pair(long_one, 2)));
}

TEST(PrefixSchedulingTest, TheLastTokenOfAPromptIsAlwaysComputed) {
  Bench bench(kRoomy);
  bench.add(prompt_of(8));
  bench.step();
  Sequence* same = bench.add(prompt_of(8))[0];
  EXPECT_THAT(bench.step(), ElementsAre(Pair(same, 4)));
  EXPECT_EQ(same->cached_tokens(), 4);
}

TEST(PrefixSchedulingTest, OtherClientsAndOtherSaltsComputeForThemselves) {
  Bench bench(kRoomy);
  bench.add(prompt_of(9, "a", "x"));
  bench.step();
  Sequence* other_client = bench.add(prompt_of(9, "b", "x"))[0];
  Sequence* other_salt = bench.add(prompt_of(9, "a", "y"))[0];
  Sequence* same = bench.add(prompt_of(9, "a", "x"))[0];
  EXPECT_THAT(bench.step(), ElementsAre(Pair(other_client, 9), Pair(other_salt, 9), Pair(same, 1)));
}

TEST(PrefixSchedulingTest, SharedPrefixesSpanClientsButNotSalts) {
  SchedulerLimits limits = kRoomy;
  limits.prefix.shared = true;
  Bench bench(limits);
  bench.add(prompt_of(9, "a", "x"));
  bench.step();
  Sequence* other_client = bench.add(prompt_of(9, "b", "x"))[0];
  Sequence* other_salt = bench.add(prompt_of(9, "a", "y"))[0];
  EXPECT_THAT(bench.step(), ElementsAre(Pair(other_client, 1), Pair(other_salt, 9)));
}

TEST(PrefixSchedulingTest, NothingIsKeptWithoutTheCache) {
  SchedulerLimits limits = kRoomy;
  limits.prefix.enabled = false;
  Bench bench(limits);
  EngineRequest request = prompt_of(9);
  request.n = 2;
  EXPECT_EQ(bench.add(request).size(), 2u);
  EXPECT_EQ(bench.step().size(), 2u) << "no choice waits for the first one";
  EXPECT_EQ(bench.scheduler().pages().cached(), 0);
  Sequence* same = bench.add(prompt_of(9))[0];
  EXPECT_THAT(bench.step(), ElementsAre(Pair(same, 9)));
}

TEST(PrefixSchedulingTest, ChoicesWaitForTheFirstOnesPromptAndDelayNoOtherRequest) {
  SchedulerLimits limits = kRoomy;
  limits.prefill_chunk = 8;
  Bench bench(limits);
  EngineRequest request = prompt_of(14);
  request.n = 3;
  request.max_tokens = 5;
  const std::vector<Sequence*> choices = bench.add(request);
  Sequence* other = bench.add(request_of(7, 3, 5))[0];
  EXPECT_EQ(bench.scheduler().waiting(), 4);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(choices[0], 8)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(choices[0], 6), Pair(other, 2)));
  EXPECT_THAT(bench.step(), ElementsAre(Pair(choices[0], 1), Pair(choices[1], 2),
                                        Pair(choices[2], 2), Pair(other, 1)));
  EXPECT_EQ(choices[1]->cached_tokens(), 12);
  EXPECT_EQ(bench.scheduler().pages().available(), 100 - 4 - 1 - 1 - 1)
      << "three pages of the prompt are shared";
}

TEST(PrefixSchedulingTest, ChoicesDoNotWaitForAFirstChoiceThatIsGone) {
  Bench bench(kRoomy);
  EngineRequest request = prompt_of(14);
  request.n = 3;
  const std::vector<Sequence*> choices = bench.add(request);
  bench.scheduler().remove(choices[0]);
  EXPECT_EQ(bench.scheduler().waiting(), 2);
  EXPECT_THAT(bench.step(), ElementsAre(Pair(choices[1], 14), Pair(choices[2], 14)));
}

TEST(PrefixSchedulingTest, CachedPagesAreEvictedBeforeASequenceIsPreempted) {
  SchedulerLimits limits = kRoomy;
  limits.pages = 4;
  Bench bench(limits);
  bench.add(prompt_of(9));
  bench.step();
  EXPECT_EQ(bench.scheduler().pages().cached(), 2);
  Sequence* other = bench.add(request_of(8, 13, 3))[0];
  EXPECT_THAT(bench.step(), ElementsAre(Pair(other, 13)));
  EXPECT_EQ(bench.scheduler().pages().cached(), 0);
  EXPECT_EQ(bench.scheduler().preemptions(), 0);
}

TEST(PrefixSchedulingTest, CachedPagesThatAreInUseNeedNoFreePages) {
  SchedulerLimits limits = kRoomy;
  limits.pages = 5;
  Bench bench(limits);
  EngineRequest first = prompt_of(14);
  first.max_tokens = 3;
  Sequence* a = bench.add(first)[0];
  bench.step();
  Sequence* b = bench.add(prompt_of(14))[0];  // Four pages: one is free, three are a's.
  EXPECT_THAT(bench.step(), ElementsAre(Pair(a, 1), Pair(b, 2)));
}

TEST(PrefixSchedulingTest, APreemptedSequenceContinuesWithItsPagesThatAreStillCached) {
  SchedulerLimits limits = kRoomy;
  limits.pages = 6;
  Bench bench(limits);
  Sequence* a = bench.add(request_of(1, 4, 13))[0];
  Sequence* b = bench.add(request_of(2, 12, 9))[0];
  for (int i = 0; b->state() != Sequence::State::kPreempted; ++i) {
    ASSERT_LT(i, 20);
    bench.step();
  }
  while (a->state() == Sequence::State::kRunning) bench.step();
  const auto rows = bench.step();
  ASSERT_THAT(rows, ElementsAre(Pair(b, testing::Lt(b->length() - 4))));
  EXPECT_EQ(b->cached_tokens(), 0) << "it found none when it began";
}

TEST(PrefixSchedulingTest, ASequenceThatIsLeftAloneCanUseAllPagesAfterAnEqualPrompt) {
  SchedulerLimits limits = kRoomy;
  limits.pages = 6;
  Bench bench(limits);
  // Both requests compute the same 8 tokens in one step: the second one's pages are not shared.
  bench.add(prompt_of(8));
  EngineRequest second = prompt_of(8);
  second.max_tokens = 15;  // Six pages at the end.
  Sequence* b = bench.add(second)[0];
  for (int i = 0; b->state() != Sequence::State::kFinished; ++i) {
    ASSERT_LT(i, 40);
    bench.step();
  }
  EXPECT_THAT(bench.step(), IsEmpty());
  EXPECT_EQ(bench.scheduler().pages().available(), 6);
  EXPECT_EQ(bench.scheduler().pages().cached(), 5) << "each page of tokens is cached once";
}

}  // namespace
}  // namespace lockstep
