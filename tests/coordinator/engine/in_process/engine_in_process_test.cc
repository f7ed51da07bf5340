// SPDX-License-Identifier: Apache-2.0
// The engine over real workers on threads, with the demo model: from text to text, with one request
// and with several, on one rank and on three, with enough pages and with too few.
#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <random>

#include "base/source_dir.h"
#include "base/status.h"
#include "tests/coordinator/helpers.h"
#include "tests/support/cluster/in_process_cluster.h"

namespace lockstep {
namespace {

struct Place {
  int ranks = 1;
  int64_t pages = 600;
  int64_t prefill_chunk = 64;
  int64_t step_budget_ms = -1;
  PrefixOptions prefix = {};
};

std::filesystem::path demo_folder() { return std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "demo"; }

InProcessOptions demo_options(const Place& place) {
  InProcessOptions options = {
      .model = demo_folder(), .ranks = place.ranks, .max_pages = place.pages};
  options.limits.set_rows(128);
  options.limits.set_sequences(64);
  options.limits.set_outputs(64);
  return options;
}

// A running engine over the demo model.
class Demo {
 public:
  explicit Demo(const Place& place) {
    absl::StatusOr<std::unique_ptr<InProcessCluster>> cluster =
        InProcessCluster::open(demo_options(place));
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(demo_folder());
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    engine_ = std::make_unique<Engine>(cluster_.get(), tokenizer_.get(),
                                       EngineOptions{.prefill_chunk = place.prefill_chunk,
                                                     .step_budget_ms = place.step_budget_ms,
                                                     .prefix = place.prefix,
                                                     .idle_step_ms = 20});
    EXPECT_TRUE(engine_->wait_ready().ok()) << engine_->wait_ready();
  }

  std::shared_ptr<Stream> submit(const EngineRequest& request) {
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

std::vector<EngineRequest> mixed_requests(const Tokenizer& tokenizer, int count) {
  const std::string text =
      "Once upon a time there was a little boat that wanted to sail to the other side of the lake. "
      "Every morning it looked at the hills and asked the wind when they would go.";
  std::mt19937_64 random(5);
  std::vector<EngineRequest> requests;
  for (int i = 0; i < count; ++i) {
    EngineRequest request;
    const std::string prompt = text.substr(0, 4 + random() % (text.size() - 4));
    request.prompt_ids = *tokenizer.encode(prompt);
    request.max_tokens = static_cast<int32_t>(1 + random() % 24);
    request.seed = random();
    request.logprobs = static_cast<int32_t>(random() % 4) - 1;
    if (random() % 4 == 0) request.prompt_logprobs = static_cast<int32_t>(random() % 3);
    SamplingParams& sampling = request.sampling;
    sampling.temperature = static_cast<float>(random() % 3) * 0.7f;
    if (random() % 3 == 0) sampling.top_k = 40;
    if (random() % 3 == 0) sampling.top_p = 0.95f;
    if (random() % 4 == 0) sampling.min_p = 0.02f;
    if (random() % 3 == 0) sampling.repetition_penalty = 1.3f;
    if (random() % 3 == 0) sampling.frequency_penalty = 0.5f;
    if (random() % 4 == 0) sampling.bad_words = {*tokenizer.encode(" was"), {9, 10}};
    if (random() % 5 == 0) {
      for (int id = 2; id < 600; ++id) sampling.allowed_ids.push_back(id);
    }
    if (request.logprobs >= 0 && random() % 3 == 0) request.logprob_ids = {2900, 3, 70};
    if (random() % 3 == 0) request.stop = {" the", "."};
    request.stop_ids = {1};
    request.min_tokens = static_cast<int32_t>(random() % 3);
    request.max_tokens = std::max(request.max_tokens, request.min_tokens);
    requests.push_back(request);
  }
  return requests;
}

// The prompt has 71 tokens: four full pages and 7 more. An earlier request has the prompt's first n
// tokens, for each n from 1 to 71, so that the cache has 0 to 4 of the pages.
TEST(EngineInProcessTest, ACacheHitOfAnyLengthHasTheBitsOfAMiss) {
  constexpr int64_t kPageTokens = 16;
  constexpr int64_t kPromptTokens = 4 * kPageTokens + 7;
  EngineRequest request;
  Answer miss;
  {
    Demo demo({.prefix = {.enabled = false}});
    std::mt19937_64 random(17);
    for (int64_t i = 0; i < kPromptTokens; ++i) {
      request.prompt_ids.push_back(static_cast<int32_t>(2 + random() % 200));
    }
    request.max_tokens = 8;
    request.seed = 3;
    request.logprobs = 3;
    request.prompt_logits = true;
    miss = finish(*demo.submit(request))[0];
  }
  for (const int ranks : {1, 2, 3}) {
    Demo demo({.ranks = ranks, .prefill_chunk = 11});
    for (int64_t earlier = 1; earlier <= kPromptTokens; ++earlier) {
      EngineRequest first = request;
      first.prompt_ids.resize(static_cast<size_t>(earlier));
      first.max_tokens = 0;
      request.cache_salt = first.cache_salt = std::to_string(earlier);
      finish(*demo.submit(first));
      const Answer hit = finish(*demo.submit(request))[0];
      ASSERT_EQ(hit.cached_tokens, earlier / kPageTokens * kPageTokens);
      expect_same(hit, miss);
      ASSERT_EQ(hit.prompt_logits, miss.prompt_logits) << "bits";
      ASSERT_FALSE(HasFailure()) << ranks << " ranks, after " << earlier << " tokens";
    }
  }
}

// The generated tokens are sent again as a prompt: on any group, in any chunks, after a cached
// prefix, together with other requests.
TEST(EngineInProcessTest, AGeneratedTokenHasTheSameLogprobBitsInAPrompt) {
  EngineRequest request;
  Answer generated;
  {
    Demo demo({});
    request.prompt_ids = *demo.tokenizer().encode("Once upon a time there was a little boat");
    request.sampling.temperature = 0;
    request.max_tokens = 60;
    request.logprobs = request.prompt_logprobs = 5;
    generated = finish(*demo.submit(request))[0];
    ASSERT_EQ(generated.prompt_logprobs.size(), request.prompt_ids.size());
  }
  EngineRequest again = request;
  again.prompt_ids.insert(again.prompt_ids.end(), generated.tokens.begin(), generated.tokens.end());
  again.max_tokens = 0;
  std::vector<std::vector<Logprob>> expected = generated.prompt_logprobs;
  std::ranges::copy(generated.logprobs, std::back_inserter(expected));
  for (const Place& place : {Place{}, Place{.ranks = 2, .prefill_chunk = 1},
                             Place{.ranks = 3, .pages = 12, .prefill_chunk = 7}}) {
    Demo demo(place);
    finish(*demo.submit(request));
    std::vector<std::shared_ptr<Stream>> others;
    for (const EngineRequest& other : mixed_requests(demo.tokenizer(), 12)) {
      others.push_back(demo.submit(other));
    }
    const Answer scored = finish(*demo.submit(again))[0];
    expect_same(scored.prompt_logprobs, expected);
    ASSERT_FALSE(HasFailure()) << place.ranks << " ranks";
    for (const std::shared_ptr<Stream>& other : others) finish(*other);
  }
}

TEST(EngineInProcessTest, ChoicesThatShareAPromptDrawTheSameAsWithoutACache) {
  EngineRequest request;
  std::map<int32_t, Answer> without;
  for (const bool enabled : {false, true}) {
    for (const int ranks : {1, 3}) {
      Demo demo({.ranks = ranks, .pages = 40, .prefix = {.enabled = enabled}});
      request = mixed_requests(demo.tokenizer(), 1)[0];
      request.prompt_ids = *demo.tokenizer().encode(
          "Once upon a time there was a little boat that wanted to sail to the other side");
      request.sampling.temperature = 1;
      request.n = 12;
      request.max_tokens = 30;
      const std::map<int32_t, Answer> answers = finish(*demo.submit(request));
      ASSERT_EQ(answers.size(), 12u);
      if (without.empty()) without = answers;
      for (const auto& [index, answer] : answers) expect_same(answer, without[index]);
      EXPECT_EQ(answers.at(5).cached_tokens > 0, enabled);
    }
  }
}

TEST(EngineInProcessTest, SixtyFourStreamsOnAnyGroupGiveWhatEachGivesAlone) {
  std::vector<EngineRequest> requests;
  std::vector<Answer> alone;
  {
    Demo demo({});
    requests = mixed_requests(demo.tokenizer(), 64);
    for (const EngineRequest& request : requests) alone.push_back(finish(*demo.submit(request))[0]);
    size_t shown = 0;
    for (const Answer& answer : alone) shown += answer.text.size();
    EXPECT_GT(shown, 1000u);
  }
  for (const Place& place : {Place{.ranks = 1}, Place{.ranks = 3, .pages = 12, .prefill_chunk = 7},
                             Place{.ranks = 2, .pages = 20, .step_budget_ms = 1}}) {
    Demo demo(place);
    std::vector<std::shared_ptr<Stream>> streams;
    streams.reserve(requests.size());
    for (const EngineRequest& request : requests) streams.push_back(demo.submit(request));
    for (size_t i = 0; i < streams.size(); ++i) {
      const Answer answer = finish(*streams[i])[0];
      ASSERT_TRUE(streams[i]->status().ok()) << streams[i]->status();
      expect_same(answer, alone[i]);
      ASSERT_FALSE(HasFailure()) << "ranks " << place.ranks << ", request " << i;
    }
    EXPECT_EQ(demo.engine().stats().preemptions > 0, place.pages < 600);
  }
}

// Forms groups of one, two and three ranks alternately.
class ChangingCluster final : public Cluster {
 public:
  ChangingCluster() {
    for (const int ranks : {3, 1, 2}) {
      absl::StatusOr<std::unique_ptr<InProcessCluster>> cluster =
          InProcessCluster::open(demo_options({.ranks = ranks}));
      EXPECT_TRUE(cluster.ok()) << cluster.status();
      clusters_.push_back(*std::move(cluster));
    }
  }
  absl::StatusOr<std::unique_ptr<Group>> form(const GroupRequirements& requirements) override {
    return clusters_[++formed_ % clusters_.size()]->form(requirements);
  }
  void shutdown() override {
    for (const auto& cluster : clusters_) cluster->shutdown();
  }
  // A rank of the current group.
  void lose_rank() { clusters_[formed_ % clusters_.size()]->fail_next_step(0); }
  size_t formed() const { return formed_; }

 private:
  std::vector<std::unique_ptr<InProcessCluster>> clusters_;
  std::atomic<size_t> formed_ = 0;
};

TEST(EngineInProcessTest, LostRanksChangeNoBitOfAnAnswerOnGroupsOfAnySize) {
  std::vector<EngineRequest> requests;
  std::vector<Answer> alone;
  {
    Demo demo({});
    requests = mixed_requests(demo.tokenizer(), 24);
    for (const EngineRequest& request : requests) alone.push_back(finish(*demo.submit(request))[0]);
  }
  ChangingCluster cluster;
  const std::unique_ptr<Tokenizer> tokenizer = *Tokenizer::load(demo_folder());
  Engine engine(&cluster, tokenizer.get(), {.prefill_chunk = 20, .idle_step_ms = 20});
  ASSERT_TRUE(engine.wait_ready().ok());
  const auto idle = [&] {
    const EngineStats stats = engine.stats();
    return stats.running + stats.waiting == 0;
  };
  // A request loses at most two groups, because a third loss could end the request.
  constexpr size_t kTogether = 8, kLosses = 2;
  for (size_t first = 0; first < requests.size(); first += kTogether) {
    std::vector<std::shared_ptr<Stream>> streams;
    for (size_t i = 0; i < kTogether; ++i) streams.push_back(*engine.submit(requests[first + i]));
    const size_t formed = cluster.formed();
    for (size_t lost = 1; lost <= kLosses; ++lost) {
      const int64_t steps = engine.stats().steps;
      eventually([&] { return engine.stats().steps > steps + 5 || idle(); });
      // If the engine noticed an earlier loss only now, that loss counts, and no other is needed.
      if (cluster.formed() < formed + lost) cluster.lose_rank();
      eventually([&] { return cluster.formed() >= formed + lost || idle(); });
    }
    for (size_t i = 0; i < kTogether; ++i) {
      SCOPED_TRACE("request " + std::to_string(first + i));
      const Answer answer = finish(*streams[i])[0];
      EXPECT_EQ(message_of(streams[i]->status()), "");
      expect_same(answer, alone[first + i]);
    }
  }
  EXPECT_GT(cluster.formed(), 3u);
}

}  // namespace
}  // namespace lockstep
