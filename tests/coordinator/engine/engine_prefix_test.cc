// SPDX-License-Identifier: Apache-2.0
// The core with a prefix cache: what requests share, and what their answers report of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/coordinator/engine/driven_core.h"

namespace lockstep {
namespace {

EngineRequest long_request() {
  EngineRequest request = request_of(1, 30, 9);
  request.sampling.temperature = 0.8f;
  request.seed = 7;
  return request;
}

TEST(EnginePrefixTest, ARepeatedRequestComputesOnlyItsLastPage) {
  Driven driven;
  const std::shared_ptr<Stream> first = driven.submit(long_request());
  driven.run();
  const std::shared_ptr<Stream> second = driven.submit(long_request());
  driven.act();
  EXPECT_EQ(driven.step()->tokens_size(), 2) << "28 of 30 tokens fill pages of 4";
  EXPECT_EQ(driven.step()->sequences(0).first_position(), 28);
  EXPECT_EQ(driven.step()->sequences(0).pages_size(), 8);
  driven.core().results(driven.answers());
  driven.run();
  const Answer miss = finish(*first)[0];
  const Answer hit = finish(*second)[0];
  EXPECT_EQ(miss.cached_tokens, 0);
  EXPECT_EQ(hit.cached_tokens, 28);
  EXPECT_EQ(hit.tokens, miss.tokens);
  EXPECT_EQ(hit.tokens, tokens_alone(long_request()));
}

TEST(EnginePrefixTest, ASecondTurnFindsTheFirstTurnsAnswer) {
  Driven driven;
  EngineRequest turn = long_request();
  const std::shared_ptr<Stream> first = driven.submit(turn);
  driven.run();
  const std::vector<int32_t> answer = finish(*first)[0].tokens;
  turn.prompt_ids.insert(turn.prompt_ids.end(), answer.begin(), answer.end());
  turn.prompt_ids.push_back(11);
  const std::shared_ptr<Stream> second = driven.submit(turn);
  driven.run();
  const Answer found = finish(*second)[0];
  EXPECT_EQ(found.cached_tokens, 36) << "the last of 30 + 9 tokens was not computed";
  EXPECT_EQ(found.tokens, tokens_alone(turn));
}

TEST(EnginePrefixTest, EveryChoiceDrawsTheSameAsWithoutACache) {
  Driven driven;
  EngineRequest request = long_request();
  request.n = 5;
  const std::shared_ptr<Stream> stream = driven.submit(request);
  driven.run();
  const std::map<int32_t, Answer> answers = finish(*stream);
  ASSERT_EQ(answers.size(), 5u);
  for (const auto& [index, answer] : answers) {
    EXPECT_EQ(answer.tokens, tokens_alone(request, index)) << index;
    EXPECT_EQ(answer.cached_tokens, index == 0 ? 0 : 28);
  }
  EXPECT_EQ(driven.core().stats().prompt_tokens, 30 + 4 * 2);
}

TEST(EnginePrefixTest, CachedPagesCountAsFreeAndAsCached) {
  Driven driven;
  driven.submit(long_request());
  driven.run();
  driven.submit(long_request());
  driven.run();
  const EngineStats stats = driven.core().stats();
  EXPECT_EQ(stats.pages_free, 64);
  EXPECT_EQ(stats.pages_cached, 9) << "30 + 8 tokens were computed";
  EXPECT_EQ(stats.prefix.queries, 60);
  EXPECT_EQ(stats.prefix.hits, 28);
}

TEST(EnginePrefixTest, ANewGroupBeginsWithAnEmptyCacheAndCountsGoOn) {
  Driven driven;
  driven.submit(long_request());
  driven.run();
  driven.core().group_lost(unavailable("rank 1 was lost"));
  driven.form(2);
  EXPECT_EQ(driven.core().stats().pages_cached, 0);
  const std::shared_ptr<Stream> again = driven.submit(long_request());
  driven.run();
  const Answer answer = finish(*again)[0];
  EXPECT_EQ(answer.cached_tokens, 0);
  EXPECT_EQ(answer.tokens, tokens_alone(long_request()));
  EXPECT_EQ(driven.core().stats().prefix.queries, 60);
}

TEST(EnginePrefixTest, PagesThatACancelledRequestComputedStayCached) {
  Driven driven({}, {.prefill_chunk = 16});
  const std::shared_ptr<Stream> cancelled = driven.submit(long_request());
  driven.act();
  driven.core().results(driven.answers());
  driven.act();  // The second step, of 14 rows, runs.
  const std::vector<cluster::StepResult> answers = driven.answers();
  driven.core().cancel(cancelled.get());
  driven.core().results(answers);
  const std::shared_ptr<Stream> other = driven.submit(request_of(2, 40, 20));
  const std::shared_ptr<Stream> again = driven.submit(long_request());
  driven.run();
  const Answer answer = finish(*again)[0];
  EXPECT_EQ(answer.cached_tokens, 16);
  EXPECT_EQ(answer.tokens, tokens_alone(long_request()));
  EXPECT_EQ(finish(*other)[0].tokens, tokens_alone(request_of(2, 40, 20)));
}

TEST(EnginePrefixTest, CancellingARequestWhoseChoicesWaitForTheFirstEndsAllOfThem) {
  Driven driven({}, {.prefill_chunk = 8});
  EngineRequest request = long_request();
  request.n = 4;
  const std::shared_ptr<Stream> stream = driven.submit(request);
  driven.act();
  EXPECT_EQ(driven.core().stats().waiting, 3);
  driven.core().cancel(stream.get());
  driven.core().results(driven.answers());
  driven.run();
  for (const auto& [index, answer] : finish(*stream)) {
    EXPECT_EQ(answer.finish_reason, FinishReason::kCancelled);
  }
  EXPECT_EQ(driven.core().stats().waiting + driven.core().stats().running, 0);
  EXPECT_EQ(driven.core().stats().pages_free, 64);
}

}  // namespace
}  // namespace lockstep
