// SPDX-License-Identifier: Apache-2.0
// The engine over a model whose layers keep state blocks: a sequence that is preempted, or whose
// group is lost, computes its blocks again from its first token. No sequence uses pages of another
// one.
#include <gmock/gmock.h>

#include <random>

#include "base/source_dir.h"
#include "base/status.h"
#include "tests/coordinator/helpers.h"
#include "tests/support/cluster/in_process_cluster.h"

namespace lockstep {
namespace {

struct Place {
  int ranks = 1;
  int64_t pages = 200;
  int64_t prefill_chunk = 64;
};

class Lfm2 {
 public:
  explicit Lfm2(const Place& place) {
    InProcessOptions options = {
        .model = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/data/goldens/lfm2",
        .ranks = place.ranks,
        .max_pages = place.pages};
    options.limits.set_rows(128);
    options.limits.set_sequences(16);
    options.limits.set_outputs(16);
    absl::StatusOr<std::unique_ptr<InProcessCluster>> opened = InProcessCluster::open(options);
    EXPECT_TRUE(opened.ok()) << opened.status();
    cluster = *std::move(opened);
    engine = std::make_unique<Engine>(
        cluster.get(), nullptr,
        EngineOptions{.prefill_chunk = place.prefill_chunk, .idle_step_ms = 20});
    EXPECT_TRUE(engine->wait_ready().ok()) << engine->wait_ready();
  }
  std::shared_ptr<Stream> submit(const EngineRequest& request) const {
    absl::StatusOr<std::shared_ptr<Stream>> stream = engine->submit(request);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *stream;
  }

  std::unique_ptr<InProcessCluster> cluster;
  std::unique_ptr<Engine> engine;
};

// All prompts begin with the same tokens, more than a page: without state blocks, the sequences
// would share that page.
std::vector<EngineRequest> requests() {
  std::mt19937_64 random(23);
  std::vector<EngineRequest> all;
  for (int i = 0; i < 20; ++i) {
    EngineRequest request = request_of(1, static_cast<int64_t>(20 + random() % 60), 20);
    request.prompt_ids.back() = static_cast<int32_t>(3 + random() % 100);
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    request.seed = random();
    request.logprobs = 2;
    all.push_back(request);
  }
  return all;
}

std::vector<Answer> answers_alone() {
  const Lfm2 model({});
  std::vector<Answer> answers;
  for (const EngineRequest& request : requests()) {
    answers.push_back(finish(*model.submit(request))[0]);
  }
  return answers;
}

TEST(EngineRecurrentTest, PreemptedSequencesGiveTheSameAsAloneOnAnyGroup) {
  const std::vector<Answer> alone = answers_alone();
  for (const Place& place : {Place{.ranks = 1, .pages = 14}, Place{.ranks = 3, .prefill_chunk = 7},
                             Place{.ranks = 2, .pages = 9, .prefill_chunk = 5}}) {
    const Lfm2 model(place);
    std::vector<std::shared_ptr<Stream>> streams;
    for (const EngineRequest& request : requests()) streams.push_back(model.submit(request));
    for (size_t i = 0; i < streams.size(); ++i) {
      const Answer answer = finish(*streams[i])[0];
      expect_same(answer, alone[i]);
      EXPECT_EQ(answer.cached_tokens, 0);
      ASSERT_FALSE(testing::Test::HasFailure()) << place.ranks << " ranks, request " << i;
    }
    EXPECT_EQ(model.engine->stats().preemptions > 0, place.pages < 200);
  }
}

TEST(EngineRecurrentTest, ALostRankChangesNoToken) {
  const std::vector<Answer> alone = answers_alone();
  const Lfm2 model({.ranks = 3, .prefill_chunk = 16});
  std::vector<std::shared_ptr<Stream>> streams;
  for (const EngineRequest& request : requests()) {
    streams.push_back(model.submit(request));
    model.cluster->fail_next_step(static_cast<int>(streams.size() % 3));
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    expect_same(finish(*streams[i])[0], alone[i]);
    if (i % 5 == 0) model.cluster->fail_next_step(1);
  }
  EXPECT_GT(model.engine->stats().group.epoch, 1u);
}

TEST(EngineRecurrentTest, EachChoiceComputesItsPrompt) {
  EngineRequest request = requests()[1];
  request.n = 5;
  const Lfm2 one({}), three({.ranks = 3, .pages = 20, .prefill_chunk = 9});
  const std::map<int32_t, Answer> wanted = finish(*one.submit(request));
  const std::map<int32_t, Answer> found = finish(*three.submit(request));
  ASSERT_EQ(found.size(), 5u);
  for (const auto& [index, answer] : found) {
    expect_same(answer, wanted.at(index));
    EXPECT_EQ(answer.cached_tokens, 0);
  }
}

}  // namespace
}  // namespace lockstep
