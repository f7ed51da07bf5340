// SPDX-License-Identifier: Apache-2.0
// A group may be lost at any moment: every answer is the same as without the loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/numbers/numeric_class.h"
#include "base/status.h"
#include "tests/coordinator/engine/driven_core.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using Streams = std::vector<std::shared_ptr<Stream>>;

const absl::Status kLost = absl::UnavailableError("rank 1 (pid 7) was lost");

// Requests that are greedy, drawn, drawn from all logits, with several choices, scores, penalties,
// or no token to generate.
std::vector<EngineRequest> requests_of_all_kinds() {
  std::vector<EngineRequest> requests;
  requests.reserve(9);
  for (int32_t i = 0; i < 9; ++i) requests.push_back(request_of(i, 5 + 3 * i, 6 + i % 4));
  requests[1].sampling.temperature = 1;
  requests[1].logprobs = 2;
  requests[2].n = 3;
  requests[2].sampling.temperature = 0.8f;
  requests[2].stop_ids = {3, 8, 40};
  requests[3].sampling.temperature = 3;
  requests[3].sampling.top_p = 0.99f;
  requests[4].prompt_logprobs = 1;
  requests[4].n = 2;
  requests[5].max_tokens = 0;
  requests[5].prompt_logprobs = 0;
  requests[6].sampling.temperature = 1;
  requests[6].sampling.repetition_penalty = 1.4f;
  requests[6].sampling.frequency_penalty = 0.7f;
  requests[7].min_tokens = 4;
  requests[7].stop_ids = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  requests[8].prompt_logits = true;
  return requests;
}

Streams submit_all(Driven& driven, const std::vector<EngineRequest>& requests) {
  Streams streams;
  for (const EngineRequest& request : requests) streams.push_back(driven.submit(request));
  return streams;
}

class EngineRecoveryTest : public ::testing::Test {
 protected:
  EngineRecoveryTest() {
    for (const EngineRequest& request : requests_) {
      Driven driven(model_, options_, tokenizer_.get());
      const std::shared_ptr<Stream> stream = driven.submit(request);
      driven.run();
      alone_.push_back(finish(*stream));
    }
  }

  void expect_all(const Streams& streams) {
    for (size_t i = 0; i < streams.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      EXPECT_EQ(message_of(streams[i]->status()), "");
      const std::map<int32_t, Answer> answers = finish(*streams[i]);
      ASSERT_EQ(answers.size(), alone_[i].size());
      for (const auto& [index, answer] : answers) {
        expect_same(answer, alone_[i].at(index));
        EXPECT_EQ(answer.cached_tokens, alone_[i].at(index).cached_tokens);
      }
    }
  }

  static std::vector<std::string> texts() {
    std::vector<std::string> texts;
    texts.reserve(300);
    for (int i = 0; i < 300; ++i) texts.push_back(" w" + std::to_string(i));
    return texts;
  }

  const FakeModel model_ = {.pages = 60, .max_rows = 24, .max_outputs = 8, .max_sequences = 8};
  const EngineOptions options_ = {.prefill_chunk = 9};
  const std::unique_ptr<Tokenizer> tokenizer_ = tokenizer_of(texts());
  const std::vector<EngineRequest> requests_ = requests_of_all_kinds();
  std::vector<std::map<int32_t, Answer>> alone_;
};

// The loss comes before the answers of a step, after them, or while logits are fetched.
TEST_F(EngineRecoveryTest, ALossAtAnyMomentChangesNoAnswer) {
  int moments = 0;
  for (bool over = false; !over; ++moments) {
    Driven driven(model_, options_, tokenizer_.get());
    const Streams streams = submit_all(driven, requests_);
    driven.act();
    for (int i = 0; i < moments; ++i) over |= !driven.answer();
    driven.core().group_lost(kLost);
    driven.act();
    ASSERT_FALSE(driven.core().has_group());
    ASSERT_EQ(driven.step(), nullptr);
    driven.form(2);
    driven.run();
    expect_all(streams);
    EXPECT_EQ(driven.core().stats().pages_free, model_.pages);
    ASSERT_FALSE(HasFailure()) << "lost after " << moments << " answers";
  }
  EXPECT_GT(moments, 30);
}

TEST_F(EngineRecoveryTest, ManyLossesChangeNoAnswer) {
  for (const int every : {4, 6, 9, 14}) {
    Driven driven(model_, options_, tokenizer_.get());
    const Streams streams = submit_all(driven, requests_);
    uint64_t epoch = 1;
    driven.act();
    for (bool goes_on = true; goes_on;) {
      for (int i = 0; i < every && goes_on; ++i) goes_on = driven.answer();
      if (goes_on) driven.core().group_lost(kLost);
      if (goes_on) driven.form(++epoch);
      driven.act();
      ASSERT_LT(epoch, 400u);
    }
    EXPECT_GE(epoch, 4u);
    expect_all(streams);
    ASSERT_FALSE(HasFailure()) << "lost after every " << every << " answers";
  }
}

TEST_F(EngineRecoveryTest, RequestsThatArriveWithoutAGroupAreServedByTheNextOne) {
  Driven driven(model_, options_, tokenizer_.get());
  driven.core().group_lost(kLost);
  const Streams streams = submit_all(driven, requests_);
  driven.act();
  EXPECT_EQ(driven.step(), nullptr);
  EXPECT_EQ(driven.core().stats().waiting, 12);
  driven.form(2);
  driven.run();
  expect_all(streams);
  EXPECT_EQ(driven.core().stats().waiting, 0);
}

TEST_F(EngineRecoveryTest, RequestsAreRefusedBeforeTheFirstGroup) {
  EngineCore core(nullptr, {});
  auto stream = std::make_shared<Stream>();
  core.submit(std::make_unique<Job>(requests_[0], model_.vocab, Prefix{}, stream));
  const std::vector<EngineAction> actions = core.take_actions();
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(std::get<engine_action::CloseStream>(actions[0]).status.code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(EngineRecoveryTest, RequestsEndByDeadlineCancelAndDrainWithoutAGroup) {
  Driven driven(model_);
  EngineRequest hurried = request_of(1, 3, 9);
  hurried.deadline_ms = 700;
  const std::shared_ptr<Stream> late = driven.submit(hurried);
  const std::shared_ptr<Stream> cancelled = driven.submit(request_of(2, 3, 9));
  const std::shared_ptr<Stream> cut_off = driven.submit(request_of(3, 3, 9));
  const std::shared_ptr<Stream> drained = driven.submit(request_of(4, 3, 9));
  driven.act();
  driven.answer();
  driven.core().group_lost(kLost);
  driven.act();
  EXPECT_EQ(driven.core().wake_at(), 700);
  driven.core().cancel(cancelled.get());
  driven.core().cut_off(cut_off.get(), absl::ResourceExhaustedError("too slow"));
  driven.core().tick(700);
  driven.core().drain(900);
  driven.act();
  EXPECT_EQ(late->status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(finish(*cancelled)[0].finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(cut_off->status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(driven.core().wake_at(), 900);
  EXPECT_TRUE(driven.core().wants_group());
  driven.core().tick(900);
  driven.act();
  EXPECT_EQ(drained->status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(driven.core().wants_group());
  EXPECT_EQ(driven.core().stats().waiting, 0);
  EXPECT_EQ(driven.core().wake_at(), std::nullopt);
}

// ---- The next group differs ----

GroupInfo changed(GroupInfo info, const std::string& numeric_class, const std::string& weights) {
  info.numeric_class = numeric_class;
  info.weights.contents = weights;
  return info;
}

TEST_F(EngineRecoveryTest, OnlySentTokensBindARequestToItsNumericClass) {
  Driven driven(model_);
  const std::shared_ptr<Stream> streamed = driven.submit(request_of(1, 3, 9));
  driven.act();
  driven.answer();
  const std::shared_ptr<Stream> fresh = driven.submit(request_of(2, 3, 9));
  driven.core().group_lost(kLost);
  driven.act();
  EXPECT_EQ(driven.core().requirements().numeric_class, "fake");
  driven.form(changed(fake_info(model_, 2), "other.v1", ""));
  driven.run();
  EXPECT_EQ(streamed->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message_of(streamed->status()), HasSubstr("numeric class fake"));
  EXPECT_EQ(finish(*fresh)[0].tokens.size(), 9u);
  EXPECT_EQ(driven.core().requirements().numeric_class, "");
}

// In a class that promises bits, a request does not continue with other kernels; in the fast class
// it does.
TEST_F(EngineRecoveryTest, ProvenKernelsArePartOfTheClass) {
  for (const std::string numeric_class : {"cuda.exact.v1@x", "cuda.fast.v1@x"}) {
    Driven driven(model_);
    GroupInfo info = changed(fake_info(model_, 2), numeric_class, "");
    info.kernels = "0a";
    driven.core().group_lost(kLost);
    driven.form(info);
    const std::shared_ptr<Stream> streamed = driven.submit(request_of(1, 3, 9));
    driven.act();
    driven.answer();
    driven.core().group_lost(kLost);
    info.kernels = "0b";
    driven.form(info);
    driven.run();
    if (is_fast_class(numeric_class)) {
      EXPECT_EQ(finish(*streamed)[0].tokens.size(), 9u);
    } else {
      EXPECT_EQ(message_of(streamed->status()),
                "the request ran with kernels 0a of numeric class cuda.exact.v1@x, the "
                "new group has proven kernels 0b");
    }
  }
}

TEST_F(EngineRecoveryTest, NoRequestGoesOnWithOtherWeights) {
  Driven driven(model_);
  const std::shared_ptr<Stream> streamed = driven.submit(request_of(1, 3, 9));
  driven.act();
  driven.answer();
  driven.core().group_lost(kLost);
  driven.form(changed(fake_info(model_, 2), "fake", "another"));
  driven.run();
  EXPECT_EQ(streamed->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message_of(streamed->status()), HasSubstr("checkpoint was rewritten"));
}

TEST_F(EngineRecoveryTest, ARequestThatDoesNotFitASmallerGroupWaitsForALargerOne) {
  Driven driven(model_);
  const EngineRequest large = request_of(1, 30, 60);
  const EngineRequest small = request_of(2, 4, 20);
  const std::shared_ptr<Stream> waits = driven.submit(large);
  const std::shared_ptr<Stream> fits = driven.submit(small);
  driven.act();
  for (int i = 0; i < 5; ++i) driven.answer();
  for (uint64_t epoch = 2; epoch < 4; ++epoch) {
    driven.core().group_lost(kLost);
    EXPECT_EQ(driven.core().demand(), Demand::kRuns) << "the next group may have room";
    GroupInfo info = fake_info(model_, epoch);
    info.pages = 20;
    driven.form(info);
    driven.run();
    EXPECT_EQ(message_of(fits->status()), "");
    EXPECT_EQ(driven.core().demand(), Demand::kLarger);
    EXPECT_EQ(driven.core().stats().waiting, 1);
    EXPECT_EQ(driven.core().wake_at(), 1000) << "only to ask whether all ranks answer";
  }
  driven.core().group_lost(kLost);
  driven.form(4);
  driven.run();
  Driven undisturbed(model_);
  const std::shared_ptr<Stream> alone = undisturbed.submit(large);
  undisturbed.run();
  EXPECT_EQ(driven.core().demand(), Demand::kNone);
  EXPECT_EQ(finish(*waits)[0].tokens, finish(*alone)[0].tokens);
  EXPECT_EQ(finish(*fits)[0].tokens.size(), 20u);
}

// ---- A request that makes groups fail ----

// Runs to the end and loses the group at each step that has the token `deadly`. Returns the number
// of losses.
int run_with_deadly_token(Driven& driven, int32_t deadly, std::vector<int>* sequences_at_loss) {
  int losses = 0;
  driven.act();
  const auto is_deadly = [&](const cluster::Step& step) {
    return std::find(step.tokens().begin(), step.tokens().end(), deadly) != step.tokens().end();
  };
  while (driven.step() != nullptr || driven.fetch().has_value()) {
    if (driven.step() == nullptr || !is_deadly(*driven.step())) {
      driven.answer();
      continue;
    }
    sequences_at_loss->push_back(driven.step()->sequences_size());
    driven.core().group_lost(kLost);
    driven.form(static_cast<uint64_t>(++losses) + 1);
    driven.act();
  }
  return losses;
}

TEST_F(EngineRecoveryTest, ADeadlyRequestIsRunAloneAndThenEnds) {
  Driven driven(model_, options_, tokenizer_.get());
  Streams streams = submit_all(driven, requests_);
  EngineRequest deadly = request_of(1, 20, 5);
  deadly.prompt_ids[13] = 299;
  deadly.n = 2;
  const std::shared_ptr<Stream> stream = driven.submit(deadly);
  std::vector<int> sequences;
  EXPECT_EQ(run_with_deadly_token(driven, 299, &sequences), 3);
  ASSERT_EQ(sequences.size(), 3u);
  EXPECT_GT(sequences[0], 1);
  EXPECT_EQ(sequences[2], 1);
  EXPECT_EQ(stream->status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(message_of(stream->status()),
              HasSubstr("3 groups of workers were lost while they computed the request"));
  EXPECT_THAT(message_of(stream->status()), HasSubstr("rank 1 (pid 7)"));
  expect_all(streams);
}

TEST_F(EngineRecoveryTest, TwoDeadlyRequestsEndNoOther) {
  Driven driven(model_, options_, tokenizer_.get());
  Streams streams = submit_all(driven, requests_);
  Streams deadly;
  for (int32_t i = 0; i < 2; ++i) {
    EngineRequest request = request_of(i, 4, 5);
    request.prompt_ids[2] = 299;
    deadly.push_back(driven.submit(request));
  }
  std::vector<int> sequences;
  EXPECT_LE(run_with_deadly_token(driven, 299, &sequences), 6);
  for (const auto& stream : deadly) {
    EXPECT_EQ(stream->status().code(), absl::StatusCode::kInternal);
  }
  expect_all(streams);
}

TEST(EngineFetchTest, ALossWhileLogitsAreFetchedChangesNoAnswer) {
  FakeCluster cluster({.ranks = 2, .vocab = 2000, .pages = 1000, .max_context = 16'000});
  Engine engine(&cluster, nullptr, {});
  ASSERT_TRUE(engine.wait_ready().ok());
  EngineRequest wide = request_of(2, 5, 40);
  wide.sampling = {.temperature = 10, .top_p = 0.9f, .logit_bias = {}};
  const Answer alone = finish(**engine.submit(wide))[0];
  ASSERT_GT(cluster.logits_fetched(), 0);
  cluster.lose_fetch(absl::UnavailableError("rank 1 (pid 33) was lost: its stream ended"));
  const std::shared_ptr<Stream> greedy = *engine.submit(request_of(1, 5, 60));
  const std::shared_ptr<Stream> asked = *engine.submit(wide);
  EXPECT_EQ(finish(*asked)[0].tokens, alone.tokens);
  EXPECT_EQ(finish(*greedy)[0].tokens.size(), 60u);
  EXPECT_EQ(cluster.groups(), 2);
  EXPECT_THAT(cluster.broken_rules(), testing::IsEmpty());
}

}  // namespace
}  // namespace lockstep
