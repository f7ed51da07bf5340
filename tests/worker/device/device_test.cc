// SPDX-License-Identifier: Apache-2.0
// A whole group whose memory is not the host's, without a GPU. It runs the kernels of .cu files
// over the shim, on a device that detects if the host touches device memory, or reads its own
// memory before a copy to it has ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "proto/attributes.h"
#include "proto/logit_edits.h"
#include "tests/support/devices/late_device.h"
#include "tests/support/files/test_data.h"
#include "tests/support/goldens/golden_run.h"
#include "tests/support/steps.h"
#include "tests/support/tiny_program.h"
#include "worker/collectives/devices/staged.h"
#include "worker/collectives/single.h"
#include "worker/kernel_choice/bindings.h"

namespace lockstep {
namespace {

struct Run {
  std::string name;
  int ranks;
  Strategy strategy;
};

class DeviceGoldenTest : public ::testing::TestWithParam<Run> {};

TEST_P(DeviceGoldenTest, TokensAndLogitsEqualThoseOfTheReference) {
  LOCKSTEP_NEEDS_TEST_DATA(GetParam().name);
  const GoldenCase golden = load_golden_case(GetParam().name);
  expect_golden(golden, {.model = golden.folder,
                         .ranks = GetParam().ranks,
                         .threads = 2,
                         .strategy = GetParam().strategy,
                         .dtype = "float32",
                         .backend = late_backend});
}

std::vector<Run> all_runs() {
  std::vector<Run> runs;
  for (const char* name : {"llama_gqa", "llama_tied", "llama3_rope", "mistral_window", "qwen2",
                           "qwen3", "mixtral", "qwen2_moe"}) {
    for (const int ranks : {1, 2}) {
      runs.push_back({std::string("goldens/") + name, ranks, Strategy::kGather});
    }
  }
  runs.push_back({"goldens/llama_gqa", 2, Strategy::kReduce});
  runs.push_back({"goldens/llama_gqa", 3, Strategy::kGather});
  return runs;
}

TEST(DeviceBindingTest, HeadsTooWideForTheKernelAreRefusedWhenTheProgramIsBound) {
  program::Program program = layer_program();
  const Backend backend = late_backend();
  EXPECT_EQ(message_of(bind(program, backend).status()), "");
  program.mutable_states(0)->mutable_kv()->set_k_dim(2048);
  program.mutable_states(0)->mutable_kv()->set_v_dim(2048);
  int index = 0;
  for (program::Instruction& instruction : *program.mutable_instructions()) {
    if (instruction.op() == program::ATTENTION) {
      instruction.mutable_attributes()->mutable_attention()->set_head_dim(2048);
      break;
    }
    ++index;
  }
  const absl::Status status = bind(program, backend).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(message_of(status),
            "instruction " + std::to_string(index) +
                ": kernel attention_f32_cuda_shim needs head_dim up to 1024, found " +
                attributes_text(program.instructions(index).attributes(), true) +
                "; use another --device");
  EXPECT_NE(message_of(status).find("head_dim 2048"), std::string::npos);
  EXPECT_EQ(message_of(bind(program, cpu_backend()).status()), "");
}

// A rank is lost in a step while its peer has copies queued; the next group gives the same result.
TEST(DeviceClusterTest, TheNextGroupContinuesAfterALostRank) {
  LOCKSTEP_NEEDS_TEST_DATA("goldens/llama_gqa");
  InProcessOptions options{.model = test_data("goldens/llama_gqa"),
                           .ranks = 2,
                           .dtype = "bfloat16",
                           .backend = late_backend};
  const auto cluster = InProcessCluster::open(options);
  ASSERT_EQ(message_of(cluster.status()), "");
  cluster::Step step;
  step.set_step(1);
  add_rows(step, {5, 6, 7}, 0, {0});
  cluster::Step second = step;
  second.set_step(2);
  auto group = (*cluster)->form({});
  ASSERT_EQ(message_of(group.status()), "");
  const auto before = (*group)->run(step);
  ASSERT_EQ(message_of(before.status()), "");
  (*cluster)->fail_next_step(1);
  EXPECT_EQ(message_of((*group)->run(second).status()), "rank 1 was lost");
  group = (*cluster)->form({});
  ASSERT_EQ(message_of(group.status()), "");
  const auto after = (*group)->run(step);
  ASSERT_EQ(message_of(after.status()), "");
  EXPECT_EQ(logits_of(*after, 0), logits_of(*before, 0));
}

INSTANTIATE_TEST_SUITE_P(All, DeviceGoldenTest, ::testing::ValuesIn(all_runs()),
                         [](const ::testing::TestParamInfo<Run>& test) {
                           const Run& run = test.param;
                           return run.name.substr(run.name.find('/') + 1) + "_" +
                                  std::to_string(run.ranks) + "_" + strategy_name(run.strategy);
                         });

using ::testing::Eq;
using ::testing::FloatNear;
using ::testing::Pointwise;

std::unique_ptr<Collective> collective_for(const Backend* backend) {
  if (backend == nullptr) return single_collective();
  return staged_collective(single_collective(), *backend->device);
}

cluster::Assignment assignment_of(const program::Program& program, const Backend* backend) {
  cluster::Assignment assignment;
  *assignment.mutable_program() = program;
  if (backend != nullptr) assignment.mutable_program()->set_numeric_class(backend->numeric_class);
  assignment.set_random_weights(true);
  assignment.set_random_seed(7);
  assignment.set_max_pages(16);
  return assignment;
}

std::unique_ptr<Worker> load(const program::Program& program, const Backend* backend) {
  WorkerOptions options{.threads = 2, .backend = backend};
  auto worker = Worker::load(assignment_of(program, backend), collective_for(backend), options);
  EXPECT_EQ(message_of(worker.status()), "");
  EXPECT_EQ(message_of((*worker)->start(8)), "");
  return std::move(worker).value();
}

// Two sequences, one with a row given as an embedding, and every optional output.
cluster::Step rich_step(uint64_t number, int64_t position) {
  cluster::Step step;
  step.set_step(number);
  add_rows(step, {3, 99, -1}, position, {1, 0});
  add_rows(step, {17}, position, {5, 2});
  const std::vector<float> embedding = {0.5f, -1, 2, 0.25f, 1, -0.5f, 3, -2};
  step.set_embeddings(std::string(reinterpret_cast<const char*>(embedding.data()), 32));
  for (cluster::Output& output : *step.mutable_outputs()) {
    output.set_temperature(0.7f);
    output.set_seed(11);
    output.set_top_count(40);
    output.set_raw_top_count(3);
    output.set_want_noisy(true);
    output.set_want_edited_sums(true);
    output.set_want_raw_sums(true);
    add_edit(70, 1, 50, output.mutable_edits());
    std::string mask(16, '\xff');
    mask[0] = '\xfe';
    output.set_mask(mask);
  }
  return step;
}

void expect_alike(const cluster::Candidates& found, const cluster::Candidates& wanted) {
  EXPECT_THAT(floats_of(found.logits()), Pointwise(FloatNear(1e-4f), floats_of(wanted.logits())));
  EXPECT_THAT(found.top().ids(), Pointwise(Eq(), wanted.top().ids()));
  EXPECT_THAT(found.top().edited(), Pointwise(FloatNear(1e-3f), wanted.top().edited()));
  EXPECT_THAT(found.raw_top().ids(), Pointwise(Eq(), wanted.raw_top().ids()));
  EXPECT_EQ(found.noisy().id(), wanted.noisy().id());
  EXPECT_THAT(found.edited_sums().sum(), Pointwise(FloatNear(1e-3f), wanted.edited_sums().sum()));
  EXPECT_THAT(found.raw_sums().max(), Pointwise(FloatNear(1e-4f), wanted.raw_sums().max()));
}

TEST(DeviceWorkerTest, ADeviceGivesTheCpusAnswers) {
  const Backend backend = late_backend();
  const auto worker = load(layer_program(), &backend);
  const auto processor = load(layer_program(), nullptr);
  for (uint64_t number = 1; number <= 3; ++number) {  // Later steps attend to earlier ones.
    const cluster::Step step = rich_step(number, static_cast<int64_t>(number - 1) * 3);
    const auto found = worker->step(step), wanted = processor->step(step);
    ASSERT_EQ(message_of(found.status()), "");
    ASSERT_EQ(found->outputs_size(), 2);
    for (int i = 0; i < 2; ++i) expect_alike(found->outputs(i), wanted->outputs(i));
    cluster::LogitsRequest request;
    request.set_step(number);
    request.set_output(1);
    EXPECT_EQ(worker->logits(request)->logits(), found->outputs(1).logits());
  }
  cluster::Step empty;
  empty.set_step(4);
  EXPECT_EQ(message_of(worker->step(empty).status()), "");
  EXPECT_THAT(worker->profile(), ::testing::HasSubstr("wait for the device"));
}

TEST(DeviceWorkerTest, WeightsAreKeptThroughARejoin) {
  const Backend backend = late_backend();
  const auto worker = load(layer_program(), &backend);
  const auto before = worker->step(rich_step(1, 0));
  const cluster::Assignment assignment = assignment_of(layer_program(), &backend);
  ASSERT_EQ(message_of(worker->rejoin(assignment, collective_for(&backend))), "");
  ASSERT_EQ(message_of(worker->start(8)), "");
  const auto after = worker->step(rich_step(1, 0));
  ASSERT_EQ(message_of(after.status()), "");
  EXPECT_EQ(after->outputs(0).logits(), before->outputs(0).logits());
}

TEST(DeviceWorkerTest, AProgramOfTheCpusNumericClassIsRefused) {
  const Backend backend = late_backend();
  cluster::Assignment assignment;
  *assignment.mutable_program() = layer_program();
  assignment.set_random_weights(true);
  const auto worker = Worker::load(assignment, collective_for(&backend), {.backend = &backend});
  EXPECT_THAT(message_of(worker.status()), ::testing::HasSubstr("the same --device"));
}

TEST(DeviceWorkerTest, TheErrorNamesTheDeviceWithTooLittleMemory) {
  const Backend backend = late_backend();
  cluster::Assignment assignment;
  *assignment.mutable_program() = layer_program();
  assignment.mutable_program()->set_numeric_class(backend.numeric_class);
  assignment.set_random_weights(true);
  const auto worker = Worker::load(assignment, collective_for(&backend),
                                   {.backend = &backend, .memory_free_bytes = 100});
  EXPECT_EQ(worker.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(message_of(worker.status()), ::testing::HasSubstr("of memory on late device"));
}

}  // namespace
}  // namespace lockstep
