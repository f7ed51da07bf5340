// SPDX-License-Identifier: Apache-2.0
// The engine over real workers on threads, with the demo model: text to text, alone and together,
// on one rank and on three, with and without room.
#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "tests/coordinator/helpers.h"
#include "tests/support/in_process_cluster.h"

namespace lockstep {
namespace {

struct Place {
  int ranks = 1;
  int64_t pages = 600;
  int64_t prefill_chunk = 64;
};

// A running engine over the demo model.
class Demo {
 public:
  explicit Demo(const Place& place) {
    const std::filesystem::path folder = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "demo";
    InProcessOptions options = {.model = folder, .ranks = place.ranks, .max_pages = place.pages};
    options.limits.set_rows(128);
    options.limits.set_sequences(64);
    options.limits.set_outputs(64);
    absl::StatusOr<std::unique_ptr<InProcessCluster>> cluster = InProcessCluster::open(options);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(folder);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    engine_ = std::make_unique<Engine>(
        cluster_.get(), tokenizer_.get(),
        EngineOptions{.prefill_chunk = place.prefill_chunk, .idle_step_ms = 20});
    EXPECT_TRUE(engine_->wait_ready().ok()) << engine_->wait_ready();
  }

  std::shared_ptr<Stream> submit(const Request& request) {
    absl::StatusOr<std::shared_ptr<Stream>> stream = engine_->submit(request);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *stream;
  }
  Engine& engine() { return *engine_; }
  InProcessCluster& cluster() { return *cluster_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  std::unique_ptr<InProcessCluster> cluster_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Engine> engine_;
};

std::vector<Request> mixed_requests(const Tokenizer& tokenizer, int count) {
  const std::string text =
      "Once upon a time there was a little boat that wanted to sail to the other side of the lake. "
      "Every morning it looked at the hills and asked the wind when they would go.";
  std::mt19937_64 random(5);
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    Request request;
    const std::string prompt = text.substr(0, 4 + random() % (text.size() - 4));
    request.prompt_ids = *tokenizer.encode(prompt);
    request.prompt_is_text = true;
    request.max_tokens = static_cast<int32_t>(1 + random() % 24);
    request.seed = random();
    request.logprobs = static_cast<int32_t>(random() % 4) - 1;
    SamplingParams& sampling = request.sampling;
    sampling.temperature = static_cast<float>(random() % 3) * 0.7f;
    if (random() % 3 == 0) sampling.top_k = 40;
    if (random() % 3 == 0) sampling.top_p = 0.95f;
    if (random() % 4 == 0) sampling.min_p = 0.02f;
    if (random() % 3 == 0) sampling.repetition_penalty = 1.3f;
    if (random() % 3 == 0) sampling.frequency_penalty = 0.5f;
    if (random() % 3 == 0) request.stop = {" the", "."};
    request.stop_ids = {1};
    request.min_tokens = static_cast<int32_t>(random() % 3);
    request.max_tokens = std::max(request.max_tokens, request.min_tokens);
    requests.push_back(request);
  }
  return requests;
}

TEST(EngineInProcessTest, SixtyFourStreamsOnAnyGroupGiveWhatEachGivesAlone) {
  std::vector<Request> requests;
  std::vector<Answer> alone;
  {
    Demo demo({});
    requests = mixed_requests(demo.tokenizer(), 64);
    for (const Request& request : requests) alone.push_back(finish(*demo.submit(request))[0]);
    size_t shown = 0;
    for (const Answer& answer : alone) shown += answer.text.size();
    EXPECT_GT(shown, 1000u);
  }
  for (const Place& place : {Place{.ranks = 1}, Place{.ranks = 3, .pages = 12, .prefill_chunk = 7},
                             Place{.ranks = 2, .pages = 20}}) {
    Demo demo(place);
    std::vector<std::shared_ptr<Stream>> streams;
    for (const Request& request : requests) streams.push_back(demo.submit(request));
    for (size_t i = 0; i < streams.size(); ++i) {
      const Answer answer = finish(*streams[i])[0];
      ASSERT_TRUE(streams[i]->status().ok()) << streams[i]->status();
      ASSERT_EQ(answer.tokens, alone[i].tokens) << "ranks " << place.ranks << ", request " << i;
      EXPECT_EQ(answer.text, alone[i].text);
      EXPECT_EQ(answer.finish_reason, alone[i].finish_reason);
      ASSERT_EQ(answer.logprobs.size(), alone[i].logprobs.size());
      for (size_t t = 0; t < answer.logprobs.size(); ++t) {
        ASSERT_EQ(answer.logprobs[t].size(), alone[i].logprobs[t].size());
        for (size_t k = 0; k < answer.logprobs[t].size(); ++k) {
          ASSERT_EQ(answer.logprobs[t][k].id, alone[i].logprobs[t][k].id);
          ASSERT_EQ(answer.logprobs[t][k].logprob, alone[i].logprobs[t][k].logprob) << "bits";
        }
      }
    }
    EXPECT_EQ(demo.engine().stats().preemptions > 0, place.pages < 600);
  }
}

TEST(EngineInProcessTest, ALostRankIsNamedAndTheNextGroupServesTheSame) {
  Demo demo({.ranks = 3});
  Request request = mixed_requests(demo.tokenizer(), 1)[0];
  request.max_tokens = 30;
  request.stop = {};
  request.stop_ids = {};
  const Answer before = finish(*demo.submit(request))[0];
  const std::shared_ptr<Stream> stream = demo.submit(request);
  stream->wait(2);
  demo.cluster().fail_next_step(1);
  finish(*stream);
  EXPECT_EQ(stream->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(stream->status().message()), testing::HasSubstr("rank 1"));
  ASSERT_TRUE(demo.engine().wait_ready().ok());
  EXPECT_EQ(finish(*demo.submit(request))[0].tokens, before.tokens);
}

}  // namespace
}  // namespace lockstep
