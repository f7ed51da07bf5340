// SPDX-License-Identifier: Apache-2.0
// The engine with workers that check it: a request's answer does not depend on its batch, and a
// reader gets each event exactly once.
#include "coordinator/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>

#include "tests/coordinator/helpers.h"
#include "tests/support/cluster/fake_cluster.h"

namespace lockstep {
namespace {

using testing::IsEmpty;

// An engine over fake workers. The test fails if the engine sends them a wrong message.
class Served {
 public:
  explicit Served(const FakeModel& model, const EngineOptions& options = {},
                  const Tokenizer* tokenizer = nullptr)
      : cluster_(model), engine_(&cluster_, tokenizer, options) {
    EXPECT_TRUE(engine_.wait_ready().ok());
  }
  ~Served() { EXPECT_THAT(cluster_.broken_rules(), IsEmpty()); }

  std::shared_ptr<Stream> submit(const EngineRequest& request) {
    absl::StatusOr<std::shared_ptr<Stream>> stream = engine_.submit(request);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *stream;
  }
  std::map<int32_t, Answer> answers(const EngineRequest& request) {
    const std::shared_ptr<Stream> stream = submit(request);
    std::map<int32_t, Answer> answers = finish(*stream);
    EXPECT_TRUE(stream->status().ok()) << stream->status();
    return answers;
  }
  Engine& engine() { return engine_; }
  FakeCluster& cluster() { return cluster_; }

 private:
  FakeCluster cluster_;
  Engine engine_;
};

// Requests with random parameters, prompts of 1 to 60 tokens and answers of up to 30.
std::vector<EngineRequest> mixed_requests(int count) {
  std::mt19937_64 random(11);
  std::vector<EngineRequest> requests;
  for (int i = 0; i < count; ++i) {
    EngineRequest request = request_of(i, 1 + static_cast<int64_t>(random() % 60),
                                       static_cast<int32_t>(1 + random() % 30));
    SamplingParams& sampling = request.sampling;
    sampling.temperature = static_cast<float>(random() % 3) * 0.6f;
    if (random() % 3 == 0) sampling.top_k = static_cast<int32_t>(1 + random() % 100);
    if (random() % 3 == 0) sampling.top_p = 0.9f;
    if (random() % 4 == 0) sampling.min_p = 0.05f;
    if (random() % 3 == 0) sampling.repetition_penalty = 1.2f;
    if (random() % 3 == 0) sampling.presence_penalty = 0.4f;
    if (random() % 3 == 0) sampling.frequency_penalty = 0.3f;
    if (random() % 4 == 0) sampling.logit_bias = {{5, 2.0f}, {250, 1.0f}};
    if (random() % 4 == 0) request.stop_ids = {3, 4, 5, 250};
    if (random() % 4 == 0) request.min_tokens = 3;
    if (random() % 3 == 0) request.logprobs = static_cast<int32_t>(random() % 5);
    request.seed = random();
    requests.push_back(request);
  }
  return requests;
}

TEST(EngineTest, SixtyFourStreamsAtOnceGiveWhatEachGivesAlone) {
  const std::vector<EngineRequest> requests = mixed_requests(64);
  const FakeModel roomy = {.pages = 1000, .max_rows = 512, .max_outputs = 64, .max_sequences = 64};
  std::vector<Answer> alone;
  {
    Served served(roomy);
    for (const EngineRequest& request : requests) alone.push_back(served.answers(request)[0]);
  }
  for (const int ranks : {1, 2, 3, 5, 7}) {
    for (const int64_t pages : {1000, 40}) {  // Forty pages hold only a few streams.
      FakeModel model = roomy;
      model.ranks = ranks;
      model.pages = pages;
      model.max_rows = ranks == 3 ? 17 : 512;
      Served served(model, {.prefill_chunk = ranks == 2 ? 1 : 64});
      std::vector<std::shared_ptr<Stream>> streams;
      streams.reserve(requests.size());
      for (const EngineRequest& request : requests) streams.push_back(served.submit(request));
      for (size_t i = 0; i < streams.size(); ++i) {
        expect_same(finish(*streams[i])[0], alone[i]);
        ASSERT_TRUE(streams[i]->status().ok()) << streams[i]->status();
      }
      eventually([&] { return served.engine().stats().pages_free == pages; });
      // With two ranks a chunk has one row: few sequences run at once, and all have pages.
      const bool crowded = pages == 40 && ranks != 2;
      EXPECT_EQ(served.engine().stats().preemptions > 0, crowded);
    }
  }
}

TEST(EngineTest, EachGreedyTokenIsTheModelsArgmax) {
  const FakeModel model = {.ranks = 3};
  Served served(model);
  const EngineRequest request = request_of(4, 6, 20);
  const Answer answer = served.answers(request)[0];
  std::vector<int32_t> tokens = request.prompt_ids;
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> logits = fake_logits(model, tokens);
    tokens.push_back(
        static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  }
  tokens.erase(tokens.begin(), tokens.begin() + 6);
  EXPECT_EQ(answer.tokens, tokens);
  EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
  EXPECT_EQ(answer.prompt_tokens, 6);
  EXPECT_EQ(answer.completion_tokens, 20);
}

TEST(EngineTest, EachChoiceEqualsTheAnswerToARequestWithTheChoicesSeed) {
  Served served({});
  EngineRequest request = request_of(1, 5, 12);
  request.sampling.temperature = 1;
  request.seed = 100;
  request.n = 4;
  std::map<int32_t, Answer> answers = served.answers(request);
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_NE(answers[0].tokens, answers[1].tokens);
  for (int32_t i = 0; i < 4; ++i) {
    EngineRequest single = request;
    single.n = 1;
    single.seed = 100 + static_cast<uint64_t>(i);
    expect_same(answers[i], served.answers(single)[0]);
  }
}

TEST(EngineTest, PromptLogitsComeWithTheFirstEventAndWithoutAnyToken) {
  const FakeModel model = {.ranks = 3};
  Served served(model, {.prefill_chunk = 3});
  EngineRequest request = request_of(1, 8, 4);
  request.prompt_logits = true;
  request.n = 2;
  const std::vector<float> expected = fake_logits(model, request.prompt_ids);
  std::map<int32_t, Answer> answers = served.answers(request);
  EXPECT_EQ(answers[0].prompt_logits, expected);
  EXPECT_THAT(answers[1].prompt_logits, IsEmpty());

  request.max_tokens = 0;
  request.n = 1;
  const Answer answer = served.answers(request)[0];
  EXPECT_EQ(answer.prompt_logits, expected);
  EXPECT_THAT(answer.tokens, IsEmpty());
  EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
  EXPECT_EQ(answer.prompt_tokens, 8);
}

TEST(EngineTest, TextStopsAtStopStringsThatSpanTokens) {
  std::vector<std::string> texts;
  texts.reserve(300);
  for (int id = 0; id < 300; ++id) texts.push_back("t" + std::to_string(id) + "é ");
  const auto tokenizer = tokenizer_of(texts);
  Served served({}, {}, tokenizer.get());
  EngineRequest request = request_of(1, 5, 12);
  const Answer whole = served.answers(request)[0];
  ASSERT_EQ(whole.text, tokenizer->decode(whole.tokens));
  const std::string stop = whole.text.substr(whole.text.find("é") + 2, 7);
  request.stop = {stop, "never"};
  const Answer stopped = served.answers(request)[0];
  EXPECT_EQ(stopped.finish_reason, FinishReason::kStop);
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_LT(stopped.tokens.size(), whole.tokens.size());
}

TEST(EngineTest, DrawsFromWideNucleiUseAllLogits) {
  Served served({.ranks = 2, .vocab = 2000});
  EngineRequest request = request_of(1, 5, 40);
  request.sampling = {.temperature = 10, .top_p = 0.9f, .logit_bias = {}};
  EXPECT_EQ(served.answers(request)[0].tokens.size(), 40u);
  EXPECT_GT(served.cluster().logits_fetched(), 0);
}

TEST(EngineTest, RequestsThatCannotFitAreRefusedAndThoseThatFillAllPagesEndWithLength) {
  Served served({.pages = 4, .page_tokens = 4, .max_context = 100});
  EXPECT_EQ(served.engine().submit(request_of(1, 16, 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(served.answers(request_of(1, 16, 0))[0].finish_reason, FinishReason::kLength);
  const Answer answer = served.answers(request_of(1, 10, 50))[0];
  EXPECT_EQ(answer.finish_reason, FinishReason::kLength);
  EXPECT_EQ(answer.tokens.size(), 6u);
}

TEST(EngineTest, BadRequestsAreRefusedWithOneLineThatNamesTheFault) {
  Served served({.vocab = 300, .pages = 100, .max_context = 20});
  const auto message = [&](const EngineRequest& request) {
    const absl::Status status = served.engine().submit(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EngineRequest request = request_of(1, 3, 1);
  request.prompt_ids[1] = 300;
  EXPECT_THAT(message(request), testing::HasSubstr("prompt_ids[1]"));
  request.prompt_ids[1] = -1;
  EXPECT_THAT(message(request), testing::HasSubstr("found -1"));
  EXPECT_THAT(message(request_of(1, 20, 1)), testing::HasSubstr("at most 19, so"));
  EXPECT_THAT(message(request_of(1, 0, 1)), testing::HasSubstr("at least one token"));
  request = request_of(1, 3, 1);
  request.sampling.logit_bias = {{300, 1.0f}};
  EXPECT_THAT(message(request), testing::HasSubstr("logit_bias"));
  request = request_of(1, 3, 1);
  request.sampling.temperature = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message(request), testing::HasSubstr("temperature"));
  request.sampling = {.repetition_penalty = 0, .logit_bias = {}};
  EXPECT_THAT(message(request), testing::HasSubstr("repetition_penalty"));
}

TEST(EngineTest, APrefixWhoseTokensSeeOneAnotherMustEndWithATokenAndFitOneStep) {
  FakeModel model = {.max_rows = 24, .max_sequences = 16, .prefix = {.end = 60, .held = {61, 62}}};
  Served served(model);
  const auto message = [&](const EngineRequest& request) {
    return std::string(served.engine().submit(request).status().message());
  };
  EngineRequest request = request_of(1, 12, 5);
  EXPECT_THAT(message(request), testing::HasSubstr("prompt: must have the token 60"));
  request.prompt_ids[9] = 60;
  EXPECT_THAT(message(request), testing::HasSubstr("prompt: must have one of the tokens 61, 62"));
  request.prompt_ids[8] = 62;
  EXPECT_EQ(served.answers(request)[0].tokens.size(), 5u);
  EXPECT_EQ(served.answers(request)[0].cached_tokens, 0);
  EngineRequest scored = request;
  scored.prompt_logprobs = 1;
  EXPECT_THAT(message(scored), testing::HasSubstr("prompt_logprobs: "));
  request.prompt_ids.insert(request.prompt_ids.begin(), 1);
  EXPECT_THAT(message(request), testing::HasSubstr("at most 9 tokens before the token id 60"));
}

TEST(EngineTest, AListenerSeesEveryEventAndManyThreadsMaySubmit) {
  Served served({.pages = 60});
  std::atomic<int> tokens = 0;
  std::vector<std::thread> clients;
  clients.reserve(4);
  for (int32_t client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (int32_t i = 0; i < 10; ++i) {
        const std::shared_ptr<Stream> stream = served.submit(request_of(client * 10 + i, 5, 8));
        std::atomic<int> calls = 0;
        stream->set_listener([&calls] { ++calls; });
        tokens += static_cast<int>(finish(*stream)[0].tokens.size());
        stream->set_listener(nullptr);
        EXPECT_GE(calls, 1);
        (void)served.engine().stats();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(tokens, 4 * 10 * 8);
  eventually([&] { return served.engine().stats().completion_tokens == 320; });
  EXPECT_EQ(served.engine().stats().prompt_tokens >= 200, true);
}

}  // namespace
}  // namespace lockstep
