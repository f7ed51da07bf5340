// SPDX-License-Identifier: Apache-2.0
// A Worker that is the only rank, and two ranks on threads. They run hand-made programs with random
// weights.
#include "worker/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "base/status.h"
#include "checkpoint/weight_source.h"
#include "proto/logit_edits.h"
#include "tests/support/cluster/local_collectives.h"
#include "tests/support/steps.h"
#include "tests/support/tiny_program.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSeed = 7;

cluster::Assignment assignment_of(program::Program program) {
  cluster::Assignment assignment = random_assignment(std::move(program));
  assignment.set_random_seed(kSeed);
  return assignment;
}

std::unique_ptr<Worker> load(program::Program program) {
  auto worker = Worker::load(assignment_of(std::move(program)), single_collective(), {});
  EXPECT_EQ(message_of(worker.status()), "");
  EXPECT_EQ(message_of((*worker)->start(8)), "");
  return std::move(worker).value();
}

cluster::Step step_of(const std::vector<int32_t>& tokens) {
  cluster::Step step;
  step.set_step(1);
  add_rows(step, tokens, 0, {0});
  return step;
}

std::vector<float> weight_of(const program::Program& program, int index) {
  const program::Weight& weight = program.weights(index);
  std::vector<float> rows(weight.rows() * weight.cols());
  const WeightSource source{RandomWeights(kSeed)};
  EXPECT_EQ(message_of(source.read_rows(weight, 0, weight.rows(), rows.data(), weight.cols())), "");
  return rows;
}

TEST(WorkerTest, AWorkersLogitsAgreeWithPlainArithmetic) {
  const program::Program program = tiny_program();
  const std::vector<float> embed = weight_of(program, 0), head = weight_of(program, 1),
                           bias = weight_of(program, 2);
  const auto worker = load(program);
  const cluster::StepResult result = worker->step(step_of({3, 99, 42})).value();
  ASSERT_EQ(result.outputs_size(), 1);
  const std::vector<float> logits = floats_of(result.outputs(0).logits());
  ASSERT_EQ(logits.size(), 100u);
  for (int id = 0; id < 100; ++id) {
    double sum = bias[id];
    for (int k = 0; k < 8; ++k) sum += double{embed[42 * 8 + k]} * double{head[id * 8 + k]};
    EXPECT_NEAR(logits[id], sum, 1e-5) << id;
  }
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  ASSERT_EQ(result.outputs(0).top().ids_size(), 1);
  EXPECT_EQ(result.outputs(0).top().ids(0), best);
  EXPECT_EQ(result.outputs(0).top().logits(0), logits[best]);
}

TEST(WorkerTest, ARowMayHaveAnEmbeddingInsteadOfAToken) {
  const program::Program program = tiny_program();
  const std::vector<float> embed = weight_of(program, 0);
  const auto worker = load(program);
  const cluster::StepResult answered = worker->step(step_of({5, 42})).value();
  cluster::Step step = step_of({5, -1});
  step.set_step(2);
  step.set_embeddings(std::string(reinterpret_cast<const char*>(&embed[42 * 8]), 32));
  const cluster::StepResult given = worker->step(step).value();
  EXPECT_EQ(answered.outputs(0).logits(), given.outputs(0).logits());
}

TEST(WorkerTest, AnswersHaveEditsMasksAndSums) {
  const auto worker = load(tiny_program());
  cluster::Step step = step_of({42});
  cluster::Output& output = *step.mutable_outputs(0);
  output.set_temperature(2);
  output.set_top_count(200);
  output.set_raw_top_count(3);
  output.set_want_noisy(true);
  output.set_want_edited_sums(true);
  output.set_want_raw_sums(true);
  add_edit(70, 1, 50, output.mutable_edits());
  std::string mask(16, '\xff');
  mask[0] = '\xfe';  // Id 0 is forbidden.
  output.set_mask(mask);
  const cluster::StepResult result = worker->step(step).value();
  const cluster::Candidates& answer = result.outputs(0);
  const std::vector<float> logits = floats_of(answer.logits());
  EXPECT_EQ(answer.top().ids_size(), 99);
  EXPECT_EQ(answer.top().ids(0), 70);
  EXPECT_FLOAT_EQ(answer.top().edited(0), (logits[70] + 50) / 2);
  EXPECT_EQ(answer.raw_top().ids_size(), 3);
  EXPECT_EQ(answer.noisy().id(), 70);
  const cluster::BlockSums& raw = answer.raw_sums();
  ASSERT_EQ(answer.edited_sums().max_size(), 2);
  ASSERT_EQ(raw.sum_size(), 2);
  EXPECT_EQ(answer.edited_sums().max(1), answer.top().edited(0));
  double sum = 0;
  for (int id = 64; id < 100; ++id) sum += std::exp(double{logits[id]} - raw.max(1));
  EXPECT_NEAR(raw.sum(1), sum, 1e-4 * sum);
}

TEST(WorkerTest, TheLastStepsLogitsAreKept) {
  const auto worker = load(tiny_program());
  const cluster::StepResult result = worker->step(step_of({42})).value();
  cluster::LogitsRequest request;
  request.set_step(1);
  EXPECT_EQ(worker->logits(request).value().logits(), result.outputs(0).logits());
  request.set_output(1);
  EXPECT_THAT(message_of(worker->logits(request).status()),
              HasSubstr("rank 0: step 1 has 1 outputs, found a request for number 1"));
  request.set_output(0);
  request.set_step(2);
  const absl::Status status = worker->logits(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(status), HasSubstr("the last completed step is 1"));
}

TEST(WorkerTest, AnInvalidStepChangesNothing) {
  const auto worker = load(layer_program());
  cluster::Step first;
  first.set_step(1);
  add_rows(first, {1, 2, 3}, 0, {4});
  ASSERT_EQ(message_of(worker->step(first).status()), "");
  cluster::Step lie;
  lie.set_step(2);
  add_rows(lie, {9, 9, 100}, 0, {4});
  EXPECT_EQ(worker->step(lie).status().code(), absl::StatusCode::kInvalidArgument);
  lie.set_tokens(2, 9);
  lie.mutable_sequences(0)->set_pages(0, 8);
  EXPECT_THAT(message_of(worker->step(lie).status()), HasSubstr("page must be 0 to 7, found 8"));
  cluster::LogitsRequest request;
  request.set_step(1);
  EXPECT_EQ(message_of(worker->logits(request).status()), "");

  cluster::Step next;
  next.set_step(2);
  add_rows(next, {4}, 3, {4});
  const auto other = load(layer_program());
  ASSERT_EQ(message_of(other->step(first).status()), "");
  EXPECT_EQ(worker->step(next).value().outputs(0).logits(),
            other->step(next).value().outputs(0).logits());
}

TEST(WorkerTest, AnEmptyStepGivesNothing) {
  const auto worker = load(layer_program());
  cluster::Step step;
  step.set_step(5);
  const cluster::StepResult result = worker->step(step).value();
  EXPECT_EQ(result.step(), 5u);
  EXPECT_EQ(result.outputs_size(), 0);
}

TEST(WorkerTest, StepsBeforeTheStartAreRefused) {
  auto worker = Worker::load(assignment_of(tiny_program()), single_collective(), {});
  ASSERT_EQ(message_of(worker.status()), "");
  EXPECT_EQ((*worker)->step(step_of({1})).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*worker)->pages_possible(), 16);
  EXPECT_EQ((*worker)->start(17).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*worker)->start(0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(message_of((*worker)->start(16)), "");
  EXPECT_EQ((*worker)->start(16).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(WorkerTest, AWorkerRejoinsWithItsWeightsAndFreshPages) {
  const auto worker = load(layer_program());
  cluster::Step step;
  add_rows(step, {1, 2, 3}, 0, {4});
  const std::string before = worker->step(step).value().outputs(0).logits();
  worker->abort();
  ASSERT_EQ(message_of(worker->rejoin(assignment_of(layer_program()), single_collective())), "");
  EXPECT_EQ(worker->step(step).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(message_of(worker->start(5)), "");
  EXPECT_EQ(worker->step(step).value().outputs(0).logits(), before);
}

TEST(WorkerTest, ProgramsThatCannotRunAreRefused) {
  program::Program program = tiny_program();
  program.set_numeric_class("int4.v9");
  auto worker = Worker::load(assignment_of(program), single_collective(), {});
  EXPECT_EQ(worker.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(worker.status()), HasSubstr("rank 0: the group computes in numeric class"
                                                     " int4.v9"));
  program = tiny_program();
  program.mutable_weights(1)->set_dtype(program::BF16);  // The activations are still float32.
  worker = Worker::load(assignment_of(program), single_collective(), {});
  EXPECT_EQ(worker.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(worker.status()),
              HasSubstr("no kernel linear for weights in bfloat16 and activations in float32"));
  worker = Worker::load(assignment_of(tiny_program(1, 2)), single_collective(), {});
  EXPECT_THAT(message_of(worker.status()), HasSubstr("rank 1: the program is for rank 1 of 2"));
  program = tiny_program();
  program.set_vocab(-4);
  worker = Worker::load(assignment_of(program), single_collective(), {});
  EXPECT_THAT(message_of(worker.status()), HasSubstr("rank 0: program: vocab must be"));
}

TEST(WorkerTest, MissingMemoryIsReportedBeforeReading) {
  ProgramBuilder b(0, 1, 100, int64_t{1} << 20);
  const int x = b.value("x", int64_t{1} << 20);
  const int embed = b.weight("embed", program::EMBEDDING, 100, int64_t{1} << 20, 0, 100);
  b.add(program::EMBED, {}, {embed}, {x}).mutable_attributes()->mutable_embed();
  const int wide = int{1} << 22;
  const int weight = b.weight("wide", program::LINEAR_WEIGHT, wide, int64_t{1} << 20, 0, wide);
  const int y = b.value("y", wide);
  b.add(program::LINEAR, {x}, {weight}, {y});
  const int rows = b.value("rows", wide, program::OUTPUTS);
  b.add(program::SELECT_ROWS, {y}, {}, {rows});
  const int logits = b.columns(rows, 0, 100);
  b.add(program::TOP_CANDIDATES, {logits}, {}, {}).mutable_attributes()->mutable_top_candidates();
  const auto worker = Worker::load(assignment_of(b.program), single_collective(), {});
  EXPECT_EQ(worker.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string message = message_of(worker.status());
  EXPECT_THAT(message, HasSubstr("rank 0: weights and buffers of this rank need 16.0 TiB of "));
  EXPECT_THAT(message, HasSubstr("use a smaller --dtype"));
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(WorkerTest, MemoryChecksCountTheRanksThatLoadAtTheSameTime) {
  cluster::Assignment assignment = assignment_of(layer_program());
  EXPECT_TRUE(Worker::load(assignment, single_collective(), {.memory_free_bytes = 3 << 20}).ok());
  assignment.set_loading_here(1000);
  const auto worker = Worker::load(assignment, single_collective(), {.memory_free_bytes = 3 << 20});
  EXPECT_EQ(worker.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(message_of(worker.status()), HasSubstr("the 1000 ranks here"));
}

TEST(WorkerTest, NoRoomForAPageIsReportedAtLoadAndAtRejoin) {
  cluster::Assignment assignment = assignment_of(layer_program());
  assignment.set_kv_memory_bytes(100);
  const auto loaded = Worker::load(assignment, single_collective(), {});
  const absl::Status again = load(layer_program())->rejoin(assignment, single_collective());
  for (const absl::Status& status : {loaded.status(), again}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(message_of(status), HasSubstr("rank 0: no room for one KV page of 2.0 KiB"));
    EXPECT_THAT(message_of(status), HasSubstr("; raise --kv-memory, or leave it out"));
  }
}

TEST(WorkerTest, LoadingStopsWhenCancelled) {
  const std::atomic<bool> cancelled{true};
  const auto worker =
      Worker::load(assignment_of(tiny_program()), single_collective(), {.cancelled = &cancelled});
  EXPECT_EQ(worker.status().code(), absl::StatusCode::kCancelled);
}

TEST(WorkerTest, ProgressIsCountedWhileLoadingAndInSteps) {
  Progress progress;
  const WorkerOptions options{.threads = 2, .progress = &progress};
  const auto worker = Worker::load(assignment_of(layer_program()), single_collective(), options);
  ASSERT_EQ(message_of(worker.status()), "");
  EXPECT_GT(progress.bytes_loaded, 0);
  EXPECT_EQ(progress.bytes_loaded, progress.bytes_to_load);
  EXPECT_EQ(progress.load, static_cast<uint64_t>(progress.bytes_loaded));
  EXPECT_GE((*worker)->weight_bytes(), progress.bytes_loaded);
  EXPECT_EQ(progress.instructions, 0u);
  ASSERT_EQ(message_of((*worker)->start(8)), "");
  // A null step counts the same number of instructions as any other.
  ASSERT_EQ(message_of((*worker)->step(cluster::Step()).status()), "");
  const uint64_t instructions = progress.instructions;
  EXPECT_GT(instructions, 10u);
  ASSERT_EQ(message_of((*worker)->step(step_of({1, 2, 3})).status()), "");
  EXPECT_EQ(progress.instructions, 2 * instructions);
  EXPECT_FALSE(progress.waiting);
}

TEST(WorkerTest, TheErrorNamesAFolderWithoutWeights) {
  cluster::Assignment assignment = assignment_of(tiny_program());
  assignment.set_random_weights(false);
  assignment.set_checkpoint("/nowhere/at/all");
  const auto worker = Worker::load(assignment, single_collective(), {});
  EXPECT_FALSE(worker.ok());
  EXPECT_THAT(message_of(worker.status()), HasSubstr("/nowhere/at/all"));
}

TEST(WorkerTest, TheProfileHasEveryKernel) {
  const auto worker = load(layer_program());
  cluster::Step step;
  add_rows(step, {1, 2, 3}, 0, {4});
  ASSERT_EQ(message_of(worker->step(step).status()), "");
  const std::string text = worker->profile();
  for (const char* word : {"1 steps", "linear_f32", "attention_f32", "all_gather", "GB/s"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
}

// Two ranks, each on its own thread, run the same steps.
class TwoRanks {
 public:
  TwoRanks(program::Program (*make)(int, int), int64_t shared_bytes) {
    auto collectives = local_collectives(2, kCollectiveTimeout, shared_bytes);
    run([&](int rank) {
      auto worker = Worker::load(assignment_of(make(rank, 2)), std::move(collectives[rank]), {});
      EXPECT_EQ(message_of(worker.status()), "");
      workers_[rank] = std::move(worker).value();
      EXPECT_EQ(message_of(workers_[rank]->start(8)), "");
    });
  }

  // The logits of the step's first output over the whole vocabulary.
  std::string logits(const cluster::Step& step) {
    std::string parts[2];
    run([&](int rank) {
      auto result = workers_[rank]->step(step);
      ASSERT_EQ(message_of(result.status()), "");
      if (result->outputs_size() > 0) parts[rank] = result->outputs(0).logits();
    });
    return parts[0] + parts[1];
  }

  // Starts a new epoch, whose ranks share `shared_bytes` of memory.
  void rejoin(int64_t shared_bytes) {
    auto collectives = local_collectives(2, kCollectiveTimeout, shared_bytes);
    run([&](int rank) {
      const cluster::Assignment assignment = assignment_of(shared_layer_program(rank, 2));
      EXPECT_EQ(message_of(workers_[rank]->rejoin(assignment, std::move(collectives[rank]))), "");
      EXPECT_EQ(message_of(workers_[rank]->start(8)), "");
    });
  }

  Worker& worker(int rank) { return *workers_[rank]; }

 private:
  template <typename F>
  void run(const F& f) {
    std::thread other([&] { f(1); });
    f(0);
    other.join();
  }
  std::unique_ptr<Worker> workers_[2];
};

TEST(TwoRanksTest, TwoRanksGiveTheBitsOfOne) {
  for (const auto make : {tiny_program, layer_program}) {
    const auto alone = load(make(0, 1));
    TwoRanks both(make, 0);
    cluster::Step step;
    add_rows(step, {1, 99, 64, 5}, 0, {7});
    EXPECT_EQ(both.logits(step), alone->step(step).value().outputs(0).logits());
    cluster::Step next;
    next.set_step(1);
    add_rows(next, {63}, 4, {7});
    EXPECT_EQ(both.logits(next), alone->step(next).value().outputs(0).logits());
    cluster::Step empty;
    empty.set_step(2);
    EXPECT_EQ(both.logits(empty), "");
  }
}

TEST(TwoRanksTest, TwoRanksGiveTheSameBitsWithAndWithoutSharedMemory) {
  const auto alone = load(layer_program(0, 1));
  cluster::Step step;
  add_rows(step, {1, 99, 64, 5}, 0, {7});
  const std::string wanted = alone->step(step).value().outputs(0).logits();
  const int64_t bytes = shared_layer_program(0, 2).shared_bytes();
  ASSERT_GT(bytes, 0);
  TwoRanks both(shared_layer_program, bytes);
  EXPECT_EQ(both.logits(step), wanted);
  for (const int64_t given : {int64_t{0}, bytes - 1, bytes, bytes + 4096}) {
    both.rejoin(given);
    EXPECT_EQ(both.logits(step), wanted) << given;
  }
}

TEST(TwoRanksTest, AnAbortEndsTheOtherRanksStep) {
  cluster::Step step;
  add_rows(step, {1, 2}, 0, {0});
  for (int round = 0; round < 20; ++round) {  // The abort may come at any moment of the step.
    TwoRanks both(layer_program, 0);
    absl::Status status;
    std::thread waiting([&] { status = both.worker(0).step(step).status(); });
    for (int i = 0; i < round * round; ++i) std::this_thread::yield();
    both.worker(1).abort();
    waiting.join();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(message_of(status), HasSubstr("rank 0: "));
  }
}

}  // namespace
}  // namespace lockstep
