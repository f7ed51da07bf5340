// SPDX-License-Identifier: Apache-2.0
// The core by itself: events in any order, also while a step runs, and the actions that follow.
#include "coordinator/engine/engine_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/status.h"
#include "coordinator/engine/inbox.h"
#include "tests/coordinator/engine/driven_core.h"

namespace lockstep {
namespace {

using engine_action::LeaveGroup;
using testing::HasSubstr;

TEST(EngineCoreTest, RequestsThatComeTogetherShareTheFirstStep) {
  Driven driven;
  const std::shared_ptr<Stream> first = driven.submit(request_of(1, 3, 4));
  const std::shared_ptr<Stream> second = driven.submit(request_of(2, 5, 4));
  EXPECT_EQ(driven.core().wake_at(), 0);
  driven.act();
  ASSERT_NE(driven.step(), nullptr);
  EXPECT_EQ(driven.step()->tokens_size(), 8);
  driven.core().results(driven.answers());
  driven.run();
  EXPECT_EQ(finish(*first)[0].tokens, tokens_alone(request_of(1, 3, 4)));
  EXPECT_EQ(finish(*second)[0].tokens, tokens_alone(request_of(2, 5, 4)));
}

TEST(EngineCoreTest, ACancelDuringAStepEndsTheRequestAndKeepsTheOthers) {
  Driven driven;
  const std::shared_ptr<Stream> cancelled = driven.submit(request_of(1, 3, 9));
  const std::shared_ptr<Stream> kept = driven.submit(request_of(2, 5, 9));
  driven.act();
  const std::vector<cluster::StepResult> answers = driven.answers();
  driven.core().cancel(cancelled.get());
  const std::shared_ptr<Stream> late = driven.submit(request_of(3, 2, 9));
  driven.act();
  EXPECT_EQ(driven.step(), nullptr) << "one step is running";
  EXPECT_EQ(finish(*cancelled)[0].finish_reason, FinishReason::kCancelled);
  driven.core().results(answers);
  driven.run();
  EXPECT_EQ(finish(*kept)[0].tokens, tokens_alone(request_of(2, 5, 9)));
  EXPECT_EQ(finish(*late)[0].tokens, tokens_alone(request_of(3, 2, 9)));
  EXPECT_EQ(driven.core().stats().pages_free, 64);
}

TEST(EngineCoreTest, TheStatsSayWhetherPromptsAreCached) {
  for (const bool enabled : {false, true}) {
    Driven driven({}, {.prefix = {.enabled = enabled}});
    EXPECT_EQ(driven.core().stats().group.shares_prefixes, enabled);
  }
}

TEST(EngineCoreTest, RequestsWithoutADeadlineEndIfThereIsNoGroupForTooLong) {
  EngineOptions options;
  options.max_outage_ms = 1'000;
  Driven driven({}, options);
  const std::shared_ptr<Stream> endless = driven.submit(request_of(1, 3, 9));
  EngineRequest patient = request_of(2, 5, 9);
  patient.deadline_ms = 50'000;
  const std::shared_ptr<Stream> late = driven.submit(patient);
  driven.act();
  driven.core().group_lost(absl::UnavailableError("rank 1"));
  driven.act();
  EXPECT_EQ(driven.core().wake_at(), 0) << "the core has no clock: tick() gives the time";
  driven.core().tick(10'000);
  EXPECT_EQ(driven.core().wake_at(), 11'000);
  driven.core().tick(10'999);
  driven.act();
  EXPECT_TRUE(endless->status().ok());
  driven.core().tick(11'000);
  driven.act();
  EXPECT_THAT(message_of(endless->status()), HasSubstr("no group of workers could be formed"));
  EXPECT_TRUE(absl::IsUnavailable(endless->status()));
  EXPECT_TRUE(driven.core().stats().outage);
  EXPECT_EQ(driven.core().wake_at(), 50'000);
  const std::shared_ptr<Stream> newcomer = driven.submit(request_of(3, 5, 9));
  driven.core().tick(11'001);
  driven.act();
  EXPECT_TRUE(absl::IsUnavailable(newcomer->status()));
  driven.form(2);
  EXPECT_FALSE(driven.core().stats().outage);
  driven.run();
  EXPECT_EQ(finish(*late)[0].tokens, tokens_alone(request_of(2, 5, 9)));
}

// A request whose nucleus is wider than the candidates.
EngineRequest wide_request() {
  EngineRequest request = request_of(4, 3, 6);
  request.sampling.temperature = 3;
  request.sampling.top_p = 0.99f;
  return request;
}

TEST(EngineCoreTest, ADrawContinuesWhenItsLogitsArrive) {
  Driven driven;
  const std::shared_ptr<Stream> first = driven.submit(request_of(1, 3, 6));
  const std::shared_ptr<Stream> wide = driven.submit(wide_request());
  const std::shared_ptr<Stream> last = driven.submit(request_of(2, 3, 6));
  driven.act();
  driven.core().results(driven.answers());
  driven.act();
  ASSERT_TRUE(driven.fetch().has_value());
  EXPECT_EQ(driven.fetch()->output, 1);
  EXPECT_EQ(driven.step(), nullptr);
  driven.core().logits(*driven.workers().logits(driven.fetch()->step, 1));
  driven.run();
  EXPECT_EQ(finish(*first)[0].tokens, tokens_alone(request_of(1, 3, 6)));
  EXPECT_EQ(finish(*wide)[0].tokens, tokens_alone(wide_request()));
  EXPECT_EQ(finish(*last)[0].tokens, tokens_alone(request_of(2, 3, 6)));
}

TEST(EngineCoreTest, ACancelWhileLogitsAreFetchedDelaysNoOther) {
  Driven driven;
  const std::shared_ptr<Stream> wide = driven.submit(wide_request());
  const std::shared_ptr<Stream> last = driven.submit(request_of(2, 3, 6));
  driven.act();
  driven.core().results(driven.answers());
  driven.act();
  ASSERT_TRUE(driven.fetch().has_value());
  driven.core().cancel(wide.get());
  driven.core().logits(*driven.workers().logits(driven.fetch()->step, 0));
  driven.run();
  EXPECT_EQ(finish(*wide)[0].finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(finish(*last)[0].tokens, tokens_alone(request_of(2, 3, 6)));
}

TEST(EngineCoreTest, AGroupThatIsLeftOrLostIsAskedForNoLogits) {
  for (const bool stops : {true, false}) {
    Driven driven;
    driven.submit(wide_request());
    driven.act();
    driven.core().results(driven.answers());  // The draw needs logits, which are not fetched yet.
    if (stops) {
      driven.core().stop();
    } else {
      driven.core().group_lost(absl::UnavailableError("rank 1"));
    }
    driven.act();
    EXPECT_FALSE(driven.fetch().has_value());
    EXPECT_EQ(driven.step(), nullptr);
  }
}

TEST(EngineCoreTest, InvalidAnswersEndTheGroupAndNameTheRank) {
  using Lie = std::function<void(std::vector<cluster::StepResult>&)>;
  const std::vector<std::pair<std::string, Lie>> lies = {
      {"must have results of 2 ranks", [](auto& all) { all.pop_back(); }},
      {"rank 1 answered step 7", [](auto& all) { all[1].set_step(7); }},
      {"must have 1 outputs of rank 1", [](auto& all) { all[1].clear_outputs(); }},
      {"Candidate.id: must be 0 to 299, found -1",
       [](auto& all) { all[1].mutable_outputs(0)->mutable_raw_top()->set_ids(0, -1); }},
      {"Candidate.id: must be 0 to 299, found 300",
       [](auto& all) { all[1].mutable_outputs(0)->mutable_noisy()->set_id(300); }},
      {"Candidates.raw_top: must be 0 to 2, found 3",
       [](auto& all) { all[0].mutable_outputs(0)->mutable_raw_top()->add_ids(0); }},
      {"Candidates.raw_logits: must be 0 to 0, found 1",
       [](auto& all) { all[0].mutable_outputs(0)->mutable_raw_logits()->add_ids(0); }},
      {"CandidateList.logits: must be 2 to 2, found 1",
       [](auto& all) {
         all[0].mutable_outputs(0)->mutable_raw_top()->mutable_logits()->RemoveLast();
       }},
  };
  for (const auto& [text, lie] : lies) {
    Driven driven({.ranks = 2});
    EngineRequest request = request_of(1, 3, 4);
    request.logprobs = 2;
    const std::shared_ptr<Stream> stream = driven.submit(request);
    driven.act();
    std::vector<cluster::StepResult> answers = driven.answers();
    lie(answers);
    driven.core().results(answers);
    driven.act();
    EXPECT_THAT(message_of(driven.left()), HasSubstr(text));
    EXPECT_FALSE(driven.core().has_group());
    driven.form(2);
    driven.run();
    Answer answer = finish(*stream)[0];
    EXPECT_EQ(answer.tokens, tokens_alone(request));
  }
}

TEST(EngineCoreTest, NanAndInfinityNeverStopTheProcess) {
  for (const float value : {std::nanf(""), INFINITY, -INFINITY}) {
    Driven driven;
    EngineRequest request = request_of(1, 3, 4);
    request.sampling.temperature = 1;
    request.sampling.top_p = 0.9f;
    request.logprobs = 2;
    const std::shared_ptr<Stream> stream = driven.submit(request);
    driven.act();
    std::vector<cluster::StepResult> answers = driven.answers();
    cluster::Candidates& output = *answers[0].mutable_outputs(0);
    for (auto* list : {output.mutable_top(), output.mutable_raw_top()}) {
      for (float& edited : *list->mutable_edited()) edited = value;
      for (float& logit : *list->mutable_logits()) logit = value;
    }
    output.mutable_noisy()->set_noisy(value);
    for (float& sum : *output.mutable_raw_sums()->mutable_sum()) sum = value;
    for (float& max : *output.mutable_edited_sums()->mutable_max()) max = value;
    driven.core().results(answers);
    driven.run();
    EXPECT_EQ(finish(*stream)[0].tokens.size(), 4u);
  }
}

TEST(EngineCoreTest, AGroupWithoutPagesIsDropped) {
  for (const int64_t pages : {int64_t{0}, int64_t{-5}, INT64_MIN}) {
    EngineCore core(nullptr, {});
    GroupInfo info = fake_info({}, 1);
    info.pages = pages;
    core.group_formed(info);
    const std::vector<EngineAction> actions = core.take_actions();
    ASSERT_EQ(actions.size(), 1u);
    EXPECT_THAT(message_of(std::get<LeaveGroup>(actions[0]).why), HasSubstr("KV pages"));
    EXPECT_FALSE(core.has_group());
  }
}

TEST(EngineCoreTest, AnIdleGroupIsAskedWhetherItAnswers) {
  Driven driven({}, {.idle_step_ms = 1000});
  driven.core().tick(5000);
  driven.act();
  EXPECT_EQ(driven.core().wake_at(), 6000);
  driven.core().tick(5999);
  driven.act();
  EXPECT_EQ(driven.step(), nullptr);
  driven.core().tick(6000);
  driven.act();
  ASSERT_NE(driven.step(), nullptr);
  EXPECT_EQ(driven.step()->tokens_size(), 0);
  driven.core().results(driven.answers());
  driven.core().tick(6010);
  driven.act();
  EXPECT_EQ(driven.core().wake_at(), 7010);
}

TEST(EngineCoreTest, ADrainCancelsUnfinishedRequestsAtItsDeadline) {
  Driven driven({}, {.idle_step_ms = 0});
  const std::shared_ptr<Stream> stream = driven.submit(request_of(1, 3, 200));
  driven.core().drain(3000);
  driven.core().tick(2999);
  driven.act();
  ASSERT_NE(driven.step(), nullptr);
  EXPECT_EQ(driven.core().wake_at(), 3000) << "although a step is running";
  driven.core().tick(3000);
  driven.act();
  EXPECT_EQ(finish(*stream)[0].finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(stream->status(), absl::CancelledError("the server is stopping"));
}

// The deadline passes after `steps` steps: while the request waits, is in prefill, or is in decode.
TEST(EngineCoreTest, ADeadlineEndsARequestAtAnyStage) {
  for (const int steps : {0, 1, 4}) {
    Driven driven({}, {.prefill_chunk = 8, .idle_step_ms = 0});
    EngineRequest request = request_of(1, 20, 200);
    request.deadline_ms = 5000;
    request.n = 2;
    const std::shared_ptr<Stream> late = driven.submit(request);
    const std::shared_ptr<Stream> other = driven.submit(request_of(2, 5, 9));
    driven.core().tick(4999);
    for (int i = 0; i < steps; ++i) {
      driven.act();
      driven.core().results(driven.answers());
    }
    if (steps > 0) {
      driven.act();
      EXPECT_EQ(driven.core().wake_at(), 5000) << "although a step is running";
    }
    driven.core().tick(5000);
    if (steps > 0) driven.core().results(driven.answers());
    driven.run();
    EXPECT_EQ(late->status().code(), absl::StatusCode::kDeadlineExceeded) << steps;
    for (const auto& [index, answer] : finish(*late)) {
      EXPECT_EQ(answer.finish_reason, FinishReason::kCancelled);
    }
    EXPECT_EQ(finish(*other)[0].tokens, tokens_alone(request_of(2, 5, 9)));
    EXPECT_EQ(driven.core().stats().pages_free, 64);
  }
}

TEST(EngineCoreTest, ADeadlineAfterTheEndChangesNothing) {
  Driven driven({}, {.idle_step_ms = 0});
  EngineRequest request = request_of(1, 3, 4);
  request.deadline_ms = 5000;
  const std::shared_ptr<Stream> stream = driven.submit(request);
  driven.run();
  EXPECT_EQ(driven.core().wake_at(), std::nullopt);
  driven.core().tick(6000);
  driven.run();
  EXPECT_TRUE(stream->status().ok());
}

TEST(EngineCoreTest, StoppingEndsEveryChoiceAsCancelled) {
  Driven driven;
  EngineRequest request = request_of(1, 3, 200);
  request.n = 3;
  const std::shared_ptr<Stream> stream = driven.submit(request);
  driven.act();
  driven.core().stop();
  driven.act();
  EXPECT_EQ(stream->status().code(), absl::StatusCode::kCancelled);
  const std::map<int32_t, Answer> answers = finish(*stream);
  ASSERT_EQ(answers.size(), 3u);
  for (const auto& [index, answer] : answers) {
    EXPECT_EQ(answer.finish_reason, FinishReason::kCancelled);
  }
  EXPECT_FALSE(driven.core().has_group());
}

TEST(EngineCoreTest, ARequestThatIsCutOffClosesWithTheReasonAndFreesItsPages) {
  Driven driven;
  const std::shared_ptr<Stream> stream = driven.submit(request_of(1, 3, 200));
  driven.act();
  driven.core().cut_off(stream.get(), resource_exhausted("the reader is too slow"));
  driven.core().results(driven.answers());
  driven.run();
  EXPECT_EQ(stream->status(), resource_exhausted("the reader is too slow"));
  EXPECT_EQ(driven.core().stats().pages_free, 64);
}

TEST(PreparedRequestTest, ListsAreSortedOnceAndCounted) {
  EngineRequest request = request_of(1, 10, 5);
  request.stop_ids.assign(100'000, 7);
  request.stop_ids.push_back(3);
  request.stop = {"END", "END", "", "STOP"};
  const PreparedRequest prepared(request, 300);
  EXPECT_EQ(prepared.request().stop_ids, (std::vector<int32_t>{3, 7}));
  EXPECT_TRUE(prepared.is_stop_id(7));
  EXPECT_FALSE(prepared.is_stop_id(4));
  EXPECT_EQ(prepared.stops().size(), 2u);
  EXPECT_LT(prepared.bytes(), 2000);
  EXPECT_EQ(load_of(prepared).prompt_tokens, 10);
}

}  // namespace
}  // namespace lockstep
