// SPDX-License-Identifier: Apache-2.0
// Pages, and a single sequence: text, stops, limits, preemption.
#include "coordinator/scheduler/sequences/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "coordinator/scheduler/batch.h"
#include "coordinator/scheduler/pages/pages.h"
#include "tests/coordinator/helpers.h"

namespace lockstep {
namespace {

TEST(PageAllocatorTest, GivesEachPageOnceAndTakesItBack) {
  PageAllocator pages(10, 4);
  EXPECT_EQ(pages.pages_for(0), 0);
  EXPECT_EQ(pages.pages_for(1), 1);
  EXPECT_EQ(pages.pages_for(4), 1);
  EXPECT_EQ(pages.pages_for(5), 2);
  std::vector<int32_t> a, b;
  pages.take(6, &a);
  pages.take(4, &b);
  EXPECT_EQ(pages.free(), 0);
  std::set<int32_t> all(a.begin(), a.end());
  all.insert(b.begin(), b.end());
  EXPECT_EQ(all.size(), 10u);
  pages.give_back(a);
  EXPECT_EQ(pages.free(), 6);
}

TEST(PageAllocatorDeathTest, GivingBackTwiceStopsTheProcess) {
  // Without this, the test's fork() sometimes hangs under ThreadSanitizer.
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  PageAllocator pages(4, 1);
  std::vector<int32_t> some;
  pages.take(2, &some);
  pages.give_back(some);
  EXPECT_DEATH(pages.give_back(some), "check failed");
  EXPECT_DEATH(pages.take(5, &some), "check failed");
}

// A running sequence whose tokens the test chooses.
class Written {
 public:
  explicit Written(EngineRequest request, const Tokenizer* tokenizer = nullptr,
                   int64_t context = 1000)
      : request_(std::move(request), 100), sequence_(request_, 0, context, nullptr, tokenizer) {
    sequence_.start(0);
  }
  // Appends a token and returns its effects; the sequence must not be finished.
  SequenceUpdate append(int32_t id) {
    sequence_.advance(sequence_.remaining());
    sequence_.append(id);
    return sequence_.take_update();
  }
  std::string text(const std::vector<int32_t>& ids, FinishReason* reason) {
    std::string text;
    for (const int32_t id : ids) {
      const SequenceUpdate update = append(id);
      text += update.text;
      *reason = update.finish_reason;
      if (*reason != FinishReason::kNone) break;
    }
    return text;
  }
  Sequence& operator*() { return sequence_; }
  Sequence* operator->() { return &sequence_; }

 private:
  PreparedRequest request_;
  Sequence sequence_;
};

TEST(SequenceTest, EndsAtMaxTokensWithUsage) {
  Written written(request_of(1, 3, 2));
  EXPECT_EQ(written.append(5).finish_reason, FinishReason::kNone);
  EXPECT_EQ(written.append(6).finish_reason, FinishReason::kLength);
  EXPECT_EQ(written->prompt_tokens(), 3);
  EXPECT_EQ(written->generated_tokens(), 2);
}

TEST(SequenceTest, EndsWhenTheContextIsFull) {
  Written written(request_of(1, 3, 100), nullptr, /*context=*/5);
  EXPECT_EQ(written.append(5).finish_reason, FinishReason::kNone);
  EXPECT_EQ(written.append(6).finish_reason, FinishReason::kLength);
}

TEST(SequenceTest, AStopIdEndsTheSequenceAndIsCountedButNotShown) {
  const auto tokenizer = tokenizer_of({"a", "b", "c"});
  EngineRequest request = request_of(1, 3, 10);
  request.stop_ids = {2};
  Written written(request, tokenizer.get());
  FinishReason reason = FinishReason::kNone;
  EXPECT_EQ(written.text({0, 1, 2}, &reason), "ab");
  EXPECT_EQ(reason, FinishReason::kStop);
  EXPECT_EQ(written->generated_tokens(), 3);
}

TEST(SequenceTest, AStopStringAcrossTokensEndsTheTextBeforeIt) {
  const auto tokenizer = tokenizer_of({"Hel", "lo\nUs", "er", ": x", "z", "é", "€"});
  EngineRequest request = request_of(1, 1, 10);
  request.stop = {"\nUser:", "é€"};
  FinishReason reason = FinishReason::kNone;
  EXPECT_EQ(Written(request, tokenizer.get()).text({0, 1, 2, 3}, &reason), "Hello");
  EXPECT_EQ(reason, FinishReason::kStop);
  EXPECT_EQ(Written(request, tokenizer.get()).text({5, 5, 6, 4}, &reason), "é");
  EXPECT_EQ(reason, FinishReason::kStop);
  request.max_tokens = 3;
  EXPECT_EQ(Written(request, tokenizer.get()).text({0, 1, 2}, &reason), "Hello\nUser")
      << "the unfinished stop is shown at the end";
  EXPECT_EQ(reason, FinishReason::kLength);
}

TEST(SequenceTest, BytesHeldByTheDetokenizerAreShownAtTheEndAndMayCompleteAStop) {
  const auto tokenizer = tokenizer_of({"a", "<0xC3>", "<0xA9>", "b"}, /*byte_fallback=*/true);
  EngineRequest request = request_of(1, 1, 3);
  FinishReason reason = FinishReason::kNone;
  EXPECT_EQ(Written(request, tokenizer.get()).text({0, 1, 2}, &reason), "aé");
  EXPECT_EQ(reason, FinishReason::kLength);
  request.stop = {"é"};
  EXPECT_EQ(Written(request, tokenizer.get()).text({0, 1, 2}, &reason), "a");
  EXPECT_EQ(reason, FinishReason::kStop);
}

TEST(SequenceTest, TheFirstMinTokensEndNothing) {
  const auto tokenizer = tokenizer_of({"x", "stop", "y"});
  EngineRequest request = request_of(1, 1, 10);
  request.min_tokens = 2;
  request.stop = {"stop"};
  request.stop_ids = {2};
  Written written(request, tokenizer.get());
  EXPECT_EQ(written->plan().edits().ids_size(), 1) << "the stop id is forbidden";
  FinishReason reason = FinishReason::kNone;
  EXPECT_EQ(written.text({1, 2, 0, 1}, &reason), "stopyx");
  EXPECT_EQ(reason, FinishReason::kStop);
  EXPECT_EQ(written->plan().edits().ids_size(), 0);
}

TEST(SequenceTest, CancellingShowsTheTextThatWasHeldBack) {
  const auto tokenizer = tokenizer_of({"x", "stop"});
  EngineRequest request = request_of(1, 1, 10);
  request.stop = {"stopped"};
  Written written(request, tokenizer.get());
  FinishReason reason = FinishReason::kNone;
  EXPECT_EQ(written.text({0, 1}, &reason), "x");
  const SequenceUpdate update = written->finish(FinishReason::kCancelled);
  EXPECT_EQ(update.text, "stop");
  EXPECT_EQ(update.finish_reason, FinishReason::kCancelled);
}

TEST(SequenceTest, PreemptingDropsOnlyStateThatCanBeComputedAgain) {
  EngineRequest request = request_of(1, 3, 10);
  request.sampling = {.temperature = 1, .presence_penalty = 1, .logit_bias = {}};
  request.seed = 9;
  Written written(request);
  (void)written->plan();
  written.append(5);
  written->pages() = {4, 2};
  const std::string plan = written->plan().SerializeAsString();
  EXPECT_EQ(written->drop_pages(), (std::vector<int32_t>{4, 2}));
  written->preempt();
  EXPECT_EQ(written->computed(), 0);
  EXPECT_EQ(written->remaining(), 4);
  EXPECT_EQ(written->token(3), 5);
  written->start(0);
  EXPECT_EQ(written->plan().SerializeAsString(), plan) << "it goes on drawing at the same place";
}

TEST(SequenceTest, ChoicesDrawWithSeedsOfTheirOwn) {
  EngineRequest request = request_of(1, 3, 10);
  request.seed = ~uint64_t{0};
  const PreparedRequest prepared(request, 100);
  Sequence first(prepared, 0, 10, nullptr, nullptr);
  Sequence second(prepared, 1, 10, nullptr, nullptr);
  EXPECT_EQ(first.seed(), ~uint64_t{0});
  EXPECT_EQ(second.seed(), 0u) << "the seed wraps around";
  EXPECT_EQ(second.plan().seed(), 0u);
}

TEST(BatchTest, RowsFollowOneAnotherAndOnlyLastTokensHaveOutputs) {
  const PreparedRequest long_prompt(request_of(1, 6, 5), 100);
  const PreparedRequest short_prompt(request_of(2, 2, 5), 100);
  Sequence a(long_prompt, 0, 100, nullptr, nullptr);
  Sequence b(short_prompt, 0, 100, nullptr, nullptr);
  a.start(0);
  b.start(1);
  a.advance(1);
  a.pages() = {3, 1};
  b.pages() = {0};
  a.set_planned(4);
  b.set_planned(2);
  const cluster::Step step = make_step({.sequences = {&a, &b}, .rows = 6}, 17);
  EXPECT_EQ(step.step(), 17u);
  EXPECT_EQ(step.tokens_size(), 6);
  EXPECT_EQ(step.tokens(0), long_prompt.request().prompt_ids[1]);
  EXPECT_EQ(step.sequences(0).first_position(), 1);
  EXPECT_EQ(step.sequences(0).pages_size(), 2);
  ASSERT_EQ(step.outputs_size(), 1);
  EXPECT_EQ(step.outputs(0).row(), 5);
  EXPECT_EQ(step.outputs(0).position(), 2) << "the position of the token to draw";
}

TEST(BatchTest, AStepSendsTheEditsOfARequestOnceForAllItsChoices) {
  EngineRequest penalised = request_of(1, 6, 5);
  penalised.sampling.repetition_penalty = 2;
  penalised.sampling.presence_penalty = 1;
  const PreparedRequest prepared(penalised, 100);
  const PreparedRequest plain(request_of(2, 2, 5), 100);
  Sequence first(prepared, 0, 100, nullptr, nullptr), second(prepared, 1, 100, nullptr, nullptr);
  Sequence other(plain, 0, 100, nullptr, nullptr);
  Batch batch{.sequences = {&first, &other, &second}};
  for (Sequence* sequence : batch.sequences) {
    sequence->start(static_cast<int32_t>(batch.rows));
    sequence->set_planned(sequence->remaining());
    batch.rows += sequence->planned();
  }
  const cluster::Step step = make_step(batch, 1);
  ASSERT_EQ(step.shared_edits_size(), 1);
  const std::set<int32_t> prompt(penalised.prompt_ids.begin(), penalised.prompt_ids.end());
  EXPECT_THAT(step.shared_edits(0).ids(), ::testing::ElementsAreArray(prompt));
  EXPECT_EQ(step.outputs(0).shared_edits(), 1);
  EXPECT_EQ(step.outputs(1).shared_edits(), 0);
  EXPECT_EQ(step.outputs(2).shared_edits(), 1);
  EXPECT_EQ(step.outputs(2).edits().ids_size(), 0);
}

TEST(BatchTest, RowsThatScoreAPromptTokenShareNoEdits) {
  EngineRequest request = request_of(1, 3, 5);
  request.sampling.repetition_penalty = 2;
  request.prompt_logprobs = 0;
  const PreparedRequest prepared(request, 100);
  Sequence sequence(prepared, 0, 100, nullptr, nullptr);
  sequence.start(0);
  sequence.set_planned(3);
  const cluster::Step step = make_step({.sequences = {&sequence}, .rows = 3}, 1);
  ASSERT_EQ(step.outputs_size(), 3);
  EXPECT_EQ(step.outputs(0).shared_edits(), 0);
  EXPECT_EQ(step.outputs(1).shared_edits(), 0);
  EXPECT_EQ(step.outputs(2).shared_edits(), 1);
}

}  // namespace
}  // namespace lockstep
