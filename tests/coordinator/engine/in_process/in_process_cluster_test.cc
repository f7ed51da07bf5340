// SPDX-License-Identifier: Apache-2.0
// The in-process group as an engine sees it: what it says of itself, lost ranks, rejoining.
#include "tests/support/cluster/in_process_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/status.h"
#include "tests/support/files/safetensors_writer.h"
#include "tests/support/steps.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class InProcessClusterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                                   {"model_type", "llama"},
                                   {"vocab_size", 130},
                                   {"hidden_size", 32},
                                   {"intermediate_size", 48},
                                   {"num_hidden_layers", 2},
                                   {"num_attention_heads", 4},
                                   {"num_key_value_heads", 2},
                                   {"hidden_act", "silu"},
                                   {"max_position_embeddings", 64},
                                   {"rms_norm_eps", 1e-5},
                                   {"rope_theta", 10000.0},
                                   {"tie_word_embeddings", true},
                                   {"torch_dtype", "float32"}};
    write_test_file(folder_.path() / "config.json", config.dump());
    auto cluster = InProcessCluster::open(
        {.model = folder_.path(), .ranks = 3, .random_seed = 3, .max_pages = 10});
    ASSERT_EQ(message_of(cluster.status()), "");
    cluster_ = std::move(cluster).value();
  }

  static cluster::Step step(uint64_t number = 1) {
    cluster::Step step;
    step.set_step(number);
    add_rows(step, {1, 2, 3}, 0, {7, 8});
    return step;
  }

  TempFolder folder_;
  std::unique_ptr<InProcessCluster> cluster_;
};

TEST_F(InProcessClusterTest, SaysWhatItCanDo) {
  const auto group = cluster_->form({});
  ASSERT_EQ(message_of(group.status()), "");
  const GroupInfo& info = (*group)->info();
  EXPECT_EQ(info.ranks, 3);
  EXPECT_EQ(info.pages, 10);
  EXPECT_EQ(info.vocab, 130);
  EXPECT_EQ(info.max_context, 64);
  EXPECT_GT(info.weight_bytes, 0);
}

TEST_F(InProcessClusterTest, GivesTheWholeVocabularysLogitsAfterAStep) {
  const auto group = cluster_->form({});
  const auto results = (*group)->run(step());
  ASSERT_EQ(message_of(results.status()), "");
  ASSERT_EQ(message_of((*group)->ask_logits(1, 0)), "");
  const auto logits = (*group)->receive_logits(INT64_MAX);
  ASSERT_EQ(message_of(logits.status()), "");
  EXPECT_EQ(**logits, logits_of(*results, 0));
  EXPECT_EQ((*logits)->size(), 130u);
  EXPECT_EQ(cluster_->pages_of_last_step(), 2);
}

TEST_F(InProcessClusterTest, ALostRankFailsTheStepAndIsNamed) {
  auto group = cluster_->form({});
  const auto before = (*group)->run(step());
  ASSERT_EQ(message_of(before.status()), "");
  cluster_->fail_next_step(1);
  const absl::Status status = (*group)->run(step(2)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(message_of(status), HasSubstr("rank 1 was lost"));
  EXPECT_EQ((*group)->run(step(3)).status().code(), absl::StatusCode::kUnavailable);

  group = cluster_->form({});
  ASSERT_EQ(message_of(group.status()), "");
  const auto after = (*group)->run(step());
  ASSERT_EQ(message_of(after.status()), "");
  EXPECT_EQ(logits_of(*after, 0), logits_of(*before, 0));
}

TEST_F(InProcessClusterTest, ManyLostRanksAreManyTimesReplaced) {
  for (int round = 0; round < 20; ++round) {
    auto group = cluster_->form({});
    ASSERT_EQ(message_of(group.status()), "");
    ASSERT_EQ(message_of((*group)->run(step()).status()), "");
    cluster_->fail_next_step(round % 3);
    EXPECT_FALSE((*group)->run(step(2)).ok());
  }
}

TEST_F(InProcessClusterTest, AnAbortFromAnotherThreadEndsTheGroup) {
  auto group = cluster_->form({});
  std::atomic<int> steps = 0;
  std::thread other([&] {
    while (steps < 3) std::this_thread::yield();
    (*group)->abort();
  });
  absl::Status status;
  for (uint64_t number = 1; status.ok(); ++number, ++steps) {
    status = (*group)->run(step(number)).status();
  }
  other.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  ASSERT_EQ(message_of(cluster_->form({}).status()), "");
}

TEST_F(InProcessClusterTest, IsShutDownForEver) {
  cluster_->shutdown();
  EXPECT_EQ(cluster_->form({}).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace lockstep
