// SPDX-License-Identifier: Apache-2.0
// Log-probabilities of a prompt's tokens: the model's own, each reported once, however the prompt
// is computed.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "base/status.h"
#include "tests/coordinator/engine/driven_core.h"

namespace lockstep {
namespace {

EngineRequest scored_request(int64_t prompt_tokens = 30) {
  EngineRequest request = request_of(1, prompt_tokens, 4);
  request.prompt_logprobs = 3;
  request.logprobs = 3;
  return request;
}

Answer answer_to(const EngineRequest& request, const FakeModel& model = {},
                 const EngineOptions& options = {}) {
  Driven driven(model, options);
  const std::shared_ptr<Stream> stream = driven.submit(request);
  driven.run();
  return finish(*stream)[0];
}

TEST(EngineScoresTest, EveryTokenOfThePromptHasTheModelsLogProbability) {
  const FakeModel model = {.ranks = 3};
  const EngineRequest request = scored_request();
  const Answer answer = answer_to(request, model);
  ASSERT_EQ(answer.prompt_logprobs.size(), request.prompt_ids.size());
  ASSERT_EQ(answer.prompt_logprobs[0].size(), 1u) << "nothing comes before the first";
  EXPECT_EQ(answer.prompt_logprobs[0][0].id, request.prompt_ids[0]);
  EXPECT_EQ(answer.prompt_logprobs[0][0].logprob, 0);
  for (size_t i = 1; i < request.prompt_ids.size(); ++i) {
    const std::vector<float> logits = fake_logits(
        model, std::vector<int32_t>(request.prompt_ids.begin(), request.prompt_ids.begin() + i));
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit);
    const std::vector<Logprob>& token = answer.prompt_logprobs[i];
    ASSERT_EQ(token.size(), 4u);
    EXPECT_EQ(token[0].id, request.prompt_ids[i]);
    for (const Logprob& one : token) {
      EXPECT_NEAR(one.logprob, logits[static_cast<size_t>(one.id)] - std::log(sum), 1e-5);
    }
    EXPECT_EQ(token[1].id, std::max_element(logits.begin(), logits.end()) - logits.begin());
    EXPECT_GE(token[1].logprob, token[2].logprob);
  }
}

TEST(EngineScoresTest, GeneratedTokensHaveTheSameBitsInAPrompt) {
  const EngineRequest request = scored_request(7);
  const Answer generated = answer_to(request);
  EngineRequest again = request;
  again.prompt_ids.insert(again.prompt_ids.end(), generated.tokens.begin(), generated.tokens.end());
  std::vector<std::vector<Logprob>> both = generated.prompt_logprobs;
  std::ranges::copy(generated.logprobs, std::back_inserter(both));
  expect_same(answer_to(again).prompt_logprobs, both);
}

TEST(EngineScoresTest, ScoresDoNotDependOnChunksRanksOrOutputs) {
  const Answer whole = answer_to(scored_request());
  for (const int64_t chunk : {1, 3, 16}) {
    for (const int64_t outputs : {1, 2, 5}) {
      const Answer cut = answer_to(scored_request(), {.ranks = 2, .max_outputs = outputs},
                                   {.prefill_chunk = chunk});
      expect_same(cut.prompt_logprobs, whole.prompt_logprobs);
      EXPECT_EQ(cut.tokens, whole.tokens);
    }
  }
}

TEST(EngineScoresTest, APreemptedRequestGetsNoScoreTwice) {
  const Answer alone = answer_to(scored_request());
  // Both prompts fit at first. The second loses its pages before it is computed completely, when
  // the tokens of the first need them.
  Driven driven({.pages = 16}, {.prefill_chunk = 2});
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < 2; ++i) {
    EngineRequest request = scored_request();
    request.max_tokens = 16;
    request.client = std::to_string(i);
    streams.push_back(driven.submit(request));
    driven.act();
    driven.core().results(driven.answers());
  }
  driven.run();
  EXPECT_GT(driven.core().stats().preemptions, 0);
  for (const std::shared_ptr<Stream>& stream : streams) {
    const Answer answer = finish(*stream)[0];
    expect_same(answer.prompt_logprobs, alone.prompt_logprobs);
    EXPECT_EQ(answer.tokens.size(), 16u);
  }
}

TEST(EngineScoresTest, AllRowsAreComputedDespiteTheCacheAndAreThenCached) {
  Driven driven;
  driven.submit(request_of(1, 30, 4));
  driven.run();
  const std::shared_ptr<Stream> scored = driven.submit(scored_request());
  driven.run();
  const Answer answer = finish(*scored)[0];
  EXPECT_EQ(answer.cached_tokens, 0);
  expect_same(answer.prompt_logprobs, answer_to(scored_request()).prompt_logprobs);
  Driven fresh;
  fresh.submit(scored_request());
  fresh.run();
  const std::shared_ptr<Stream> later = fresh.submit(request_of(1, 30, 4));
  fresh.run();
  EXPECT_EQ(finish(*later)[0].cached_tokens, 28);
}

TEST(EngineScoresTest, TheFirstChoiceHasTheScoresBeforeAnyChoicesTokens) {
  for (const bool enabled : {false, true}) {
    Driven driven({.max_outputs = 2}, {.prefill_chunk = 8, .prefix = {.enabled = enabled}});
    EngineRequest request = scored_request();
    request.n = 3;
    const std::shared_ptr<Stream> stream = driven.submit(request);
    driven.run();
    const std::map<int32_t, Answer> answers = finish(*stream);  // finish() checks the order.
    ASSERT_EQ(answers.size(), 3u);
    expect_same(answers.at(0).prompt_logprobs, answer_to(scored_request()).prompt_logprobs);
    EXPECT_TRUE(answers.at(1).prompt_logprobs.empty() && answers.at(2).prompt_logprobs.empty());
    EXPECT_EQ(answers.at(2).tokens.size(), 4u);
  }
}

TEST(EngineScoresTest, APromptIsScoredAloneWithoutATokenToGenerate) {
  for (const int64_t prompt_tokens : {1, 2, 30}) {
    EngineRequest request = scored_request(prompt_tokens);
    request.max_tokens = 0;
    const Answer answer = answer_to(request);
    EXPECT_EQ(answer.prompt_logprobs.size(), static_cast<size_t>(prompt_tokens));
    EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
    EXPECT_EQ(answer.prompt_tokens, prompt_tokens);
    EXPECT_EQ(answer.completion_tokens, 0);
    EXPECT_TRUE(answer.tokens.empty());
  }
}

TEST(EngineScoresTest, ALongPromptComesInSmallEvents) {
  Driven driven({.pages = 256, .max_context = 1000});
  EngineRequest request = scored_request(500);
  request.prompt_logprobs = 20;
  const std::shared_ptr<Stream> stream = driven.submit(request);
  driven.run();
  std::vector<StreamEvent> events;
  stream->read(0, &events);
  size_t tokens = 0;
  for (const StreamEvent& event : events) {
    EXPECT_LE(bytes_of(event), 16 << 10);
    tokens += event.prompt_logprobs.size();
  }
  EXPECT_EQ(tokens, 500u);
}

TEST(EngineScoresTest, ATokenWhoseLogitIsNanHasProbabilityZero) {
  EngineRequest request = scored_request(3);
  request.max_tokens = 0;
  const Answer answer = answer_to(request, {.poison = request.prompt_ids[0]});
  ASSERT_EQ(answer.prompt_logprobs.size(), 3u);
  ASSERT_EQ(answer.prompt_logprobs[1].size(), 1u) << "no token is better";
  EXPECT_EQ(answer.prompt_logprobs[1][0].logprob, -std::numeric_limits<float>::infinity());
}

TEST(EngineScoresTest, ACancelledRequestGetsNoMoreScores) {
  Driven driven({.max_outputs = 8});
  const std::shared_ptr<Stream> stream = driven.submit(scored_request());
  driven.act();
  driven.core().results(driven.answers());
  driven.act();
  const std::vector<cluster::StepResult> late = driven.answers();
  driven.core().cancel(stream.get());
  driven.core().results(late);
  driven.run();
  const Answer answer = finish(*stream)[0];
  EXPECT_EQ(answer.finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(answer.prompt_logprobs.size(), 9u) << "the first, and those of one step's 8 outputs";
  EXPECT_EQ(driven.core().stats().pages_free, 64);
}

}  // namespace
}  // namespace lockstep
