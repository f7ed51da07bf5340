// SPDX-License-Identifier: Apache-2.0
// Compares captured and replayed steps, on a device without a GPU, with steps whose kernels are
// queued one by one: every answer has the same bits, and no capture is replayed after it is
// invalid.
#include "worker/steps/step_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "base/status.h"
#include "tests/support/devices/late_device.h"
#include "tests/support/files/test_data.h"
#include "tests/support/steps.h"
#include "tests/support/tiny_program.h"
#include "tests/worker/device/graph_pair.h"
#include "worker/collectives/devices/staged.h"
#include "worker/collectives/single.h"

namespace lockstep {
namespace {

struct Family {
  const char* name;
  const char* dtype;
};

class StepGraphsFamilyTest : public ::testing::TestWithParam<Family> {};

// Families with windows, experts, latent attention, and states with and without pages.
constexpr Family kFamilies[] = {{"mistral_window", "float32"}, {"mixtral", "float32"},
                                {"deepseek_v2", "float32"},    {"qwen3_next", "float32"},
                                {"rwkv7", "float32"},          {"gpt_oss", "bfloat16"}};

TEST_P(StepGraphsFamilyTest, ReplaysHaveTheBitsOfKernelsQueuedOneByOne) {
  const std::string name = std::string("goldens/") + GetParam().name;
  LOCKSTEP_NEEDS_TEST_DATA(name);
  InProcessOptions options{.model = test_data(name), .dtype = GetParam().dtype};
  options.limits.set_rows(24);
  options.limits.set_sequences(8);
  options.limits.set_outputs(8);
  Pair pair(options);
  Sequences sequences;
  cluster::Step prompts;
  for (const auto& [slot, rows] : {std::pair(0, 3), std::pair(1, 1), std::pair(2, 9)}) {
    sequences.begin(prompts, slot, rows);
  }
  pair.run(prompts);
  const auto grow = [&](std::initializer_list<int32_t> slots) {
    cluster::Step step;
    for (const int32_t slot : slots) sequences.grow(step, slot);
    pair.run(step);
  };
  for (int i = 0; i < 4; ++i) grow({0, 1, 2});
  EXPECT_EQ(pair.captures[0].begun, 1);
  EXPECT_EQ(pair.captures[0].replayed, 3);
  for (int i = 0; i < 3; ++i) grow({2});
  for (int i = 0; i < 2; ++i) grow({2, 0});
  cluster::Step again;  // A preempted sequence, with one that grows.
  sequences.begin(again, 1, 6);
  sequences.grow(again, 0);
  pair.run(again);
  cluster::Step fresh;  // A prompt of one token has the shape of steps that generate.
  sequences.begin(fresh, 3, 1);
  for (const int32_t slot : {0, 1, 2}) sequences.grow(fresh, slot);
  pair.run(fresh);
  for (int i = 0; i < 2; ++i) grow({3, 1, 0});
  grow({1, 2, 3, 0});
  EXPECT_EQ(pair.captures[0].begun, 3);
  EXPECT_EQ(pair.captures[0].replayed, 3 + 2 + 1 + 4);
}

INSTANTIATE_TEST_SUITE_P(All, StepGraphsFamilyTest, ::testing::ValuesIn(kFamilies),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(StepGraphsTest, EveryNumberOfRowsAroundABucketsEdgeHasTheSameBits) {
  const SmallModel model(64);
  InProcessOptions options = model.options();
  options.limits.set_rows(80);
  options.limits.set_sequences(80);
  options.limits.set_outputs(80);
  options.max_pages = 200;
  Pair pair(options);
  for (const int32_t rows : {1, 2, 3, 4, 5, 63, 64, 65}) {
    const int before = pair.captures[0].replayed;
    for (int position = 0; position < 2; ++position) {
      cluster::Step step;
      for (int32_t slot = 0; slot < rows; ++slot) {
        add_rows_in_slot(step, slot, {(slot + 3 * position) % 60 + 1}, position, {2 * slot});
      }
      pair.run(step);
    }
    EXPECT_GT(pair.captures[0].replayed, before) << rows << " rows";
  }
  EXPECT_EQ(pair.captures[0].begun, 6) << "buckets 1, 2, 4, 8, 64 and 80";
}

TEST(StepGraphsTest, RanksThatMeetThroughTheHostCaptureNothing) {
  const SmallModel model(64);
  Pair pair(model.options(2));
  for (int position = 0; position < 4; ++position) {
    cluster::Step step;
    add_rows_in_slot(step, 0, {5}, position, {1});
    pair.run(step);
  }
  EXPECT_EQ(pair.captures[0].begun, 0);
}

// One rank of a program with every operator. Tests call it as a session calls a worker.
class OneRank {
 public:
  explicit OneRank(Backend backend) : backend_(std::move(backend)) {
    auto loaded = Worker::load(assignment(), collective(), {.threads = 2, .backend = &backend_});
    EXPECT_EQ(message_of(loaded.status()), "");
    worker_ = std::move(loaded).value();
    EXPECT_EQ(message_of(worker_->start(8)), "");
  }
  void restart() {
    ASSERT_EQ(message_of(worker_->rejoin(assignment(), collective())), "");
    ASSERT_EQ(message_of(worker_->start(7)), "");
    position_ = 0;
  }
  // Two sequences grow by a row. Each answer has `top_count` candidates; `trace` requests the
  // operators' times as well.
  absl::StatusOr<cluster::StepResult> grow(int64_t top_count = 1, bool trace = false) {
    cluster::Step step;
    step.set_step(static_cast<uint64_t>(position_) + 1);
    for (const int32_t slot : {0, 1}) {
      add_rows_in_slot(step, slot, {static_cast<int32_t>(position_ * 3 + slot)}, position_,
                       {slot + 2});
      step.mutable_outputs(slot)->set_top_count(top_count);
    }
    step.set_trace(trace);
    ++position_;
    return worker_->step(step);
  }

 private:
  std::unique_ptr<Collective> collective() {
    return staged_collective(single_collective(), *backend_.device);
  }
  cluster::Assignment assignment() {
    cluster::Assignment assignment;
    *assignment.mutable_program() = layer_program();
    assignment.mutable_program()->set_numeric_class(backend_.numeric_class);
    assignment.set_random_weights(true);
    assignment.set_random_seed(7);
    assignment.set_max_pages(16);
    return assignment;
  }
  const Backend backend_;
  std::unique_ptr<Worker> worker_;
  int64_t position_ = 0;
};

void expect_alike(OneRank& graphs, OneRank& direct, int steps) {
  for (int i = 0; i < steps; ++i) {
    const auto found = graphs.grow(), wanted = direct.grow();
    ASSERT_EQ(message_of(found.status()), "");
    ASSERT_EQ(text_of(*found), text_of(*wanted));
  }
}

// The late device ends the test if a kernel is given memory that was released.
TEST(StepGraphsTest, NothingIsReplayedAfterThePagesChange) {
  Captures captures;
  OneRank graphs(graph_backend(captures)), direct(late_backend());
  expect_alike(graphs, direct, 3);
  EXPECT_EQ(captures.replayed, 2);
  graphs.restart();
  direct.restart();
  expect_alike(graphs, direct, 3);
  EXPECT_EQ(captures.begun, 2);
  EXPECT_EQ(captures.replayed, 4);
}

TEST(StepGraphsTest, ATracedStepReportsEveryOperator) {
  Captures captures;
  OneRank graphs(graph_backend(captures)), direct(late_backend());
  expect_alike(graphs, direct, 3);
  const auto traced = graphs.grow(1, /*trace=*/true), wanted = direct.grow();
  EXPECT_GT(traced->trace().instructions_size(), 10);
  EXPECT_EQ(traced->outputs(0).logits(), wanted->outputs(0).logits());
  expect_alike(graphs, direct, 1);
  EXPECT_EQ(captures.begun, 1);
  EXPECT_EQ(captures.replayed, 3);
}

TEST(StepGraphsTest, NothingIsReplayedAfterAStepsArraysMove) {
  const SmallModel model(2048);
  InProcessOptions options = model.options();
  options.limits.set_sequences(64);
  options.limits.set_outputs(64);
  options.max_pages = 64;
  Pair pair(options);
  const auto grow = [&](int32_t slots, int position, int64_t top_count) {
    cluster::Step step;
    for (int32_t slot = 0; slot < slots; ++slot) {
      add_rows_in_slot(step, slot, {slot + position}, position, {slot});
      step.mutable_outputs(slot)->set_top_count(top_count);
    }
    pair.run(step);
  };
  for (int position = 0; position < 3; ++position) grow(2, position, 1);
  EXPECT_EQ(pair.captures[0].replayed, 2);
  grow(20, 0, 2048);  // 20 * 2048 candidates and logits.
  for (int position = 1; position < 4; ++position) grow(2, position, 1);
  EXPECT_EQ(pair.captures[0].begun, 2);
  EXPECT_EQ(pair.captures[0].replayed, 4);
}

// Catches the log while this object lives.
class Log {
 public:
  Log() : before_(spdlog::default_logger()) {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
    auto logger = std::make_shared<spdlog::logger>("test", std::move(sink));
    logger->set_pattern("%v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~Log() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  const std::shared_ptr<spdlog::logger> before_;
};

struct Refusal {
  const char* name;
  bool Captures::*what;
  const char* reason;
};

class StepGraphsRefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(StepGraphsRefusalTest, AfterARefusalKernelsAreQueuedOneByOneAndOneLineSaysWhy) {
  const Log log;
  Captures captures;
  captures.*GetParam().what = true;
  OneRank graphs(graph_backend(captures)), direct(late_backend());
  expect_alike(graphs, direct, 4);
  graphs.restart();
  direct.restart();
  expect_alike(graphs, direct, 3);
  EXPECT_EQ(captures.begun, 1);
  EXPECT_EQ(captures.replayed, 0);
  EXPECT_EQ(log.text(), std::string("late device: steps are queued kernel by kernel, since a graph "
                                    "failed: ") +
                            GetParam().reason + "\n");
}

INSTANTIATE_TEST_SUITE_P(All, StepGraphsRefusalTest,
                         ::testing::Values(Refusal{"Begin", &Captures::refuse_begin, "no capture"},
                                           Refusal{"End", &Captures::refuse_end, "no graph"},
                                           Refusal{"Replay", &Captures::refuse_replay,
                                                   "no replay"}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep
