// SPDX-License-Identifier: Apache-2.0
// Programs compiled for GPUs store values as bfloat16 and fuse rope with attention. They must give
// the same bits as programs of the same models that do neither. Also the number of kernels per
// layer.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "base/status.h"
#include "tests/sharding/test_models.h"
#include "tests/support/cluster/in_process_cluster.h"
#include "tests/support/devices/late_device.h"
#include "tests/support/files/temp_folder.h"
#include "tests/support/steps.h"
#include "worker/collectives/devices/staged.h"
#include "worker/collectives/single.h"
#include "worker/kernels/cuda/shim/shim.h"
#include "worker/worker.h"

namespace lockstep {
namespace {

struct Kept {
  DType weights;
  DType pages;
};
constexpr Kept kKept[] = {{DType::kF32, DType::kF32},
                          {DType::kBF16, DType::kBF16},
                          {DType::kQ8, DType::kF32},
                          {DType::kQ8, DType::kI8}};

// `fused`: the program is compiled as for a GPU, with values stored as bfloat16 and rope fused with
// attention.
program::Program program_for(const Graph& model, const Kept& kept, bool fused) {
  CompileOptions options = options_for(1, Strategy::kGather, kept.weights);
  options.kv_dtype = kept.pages;
  options.workers[0].device = "late";  // Programs for CPUs would round rows to codes.
  const std::string numeric_class = late_backend().numeric_class;
  if (fused) options.workers[0].numeric_class = numeric_class;
  auto programs = compile(model, options);
  EXPECT_EQ(message_of(programs.status()), "");
  programs->front().set_numeric_class(numeric_class);
  return programs->front();
}

int count_rounded(const program::Program& program) {
  int found = 0;
  for (const program::Instruction& instruction : program.instructions()) {
    if (!schema_of(static_cast<Op>(instruction.op())).may_round()) continue;
    found += program.values(*instruction.outputs().rbegin()).dtype() == program::BF16 ? 1 : 0;
  }
  return found;
}

int count_of(const program::Program& program, program::Op op) {
  int found = 0;
  for (const program::Instruction& one : program.instructions()) found += one.op() == op ? 1 : 0;
  return found;
}

class Rank {
 public:
  explicit Rank(const program::Program& program) {
    cluster::Assignment assignment;
    *assignment.mutable_program() = program;
    assignment.set_random_weights(true);
    assignment.set_random_seed(7);
    assignment.set_max_pages(8);
    auto worker = Worker::load(assignment, staged_collective(single_collective(), *backend_.device),
                               {.backend = &backend_});
    EXPECT_EQ(message_of(worker.status()), "");
    worker_ = std::move(worker).value();
    EXPECT_EQ(message_of(worker_->start(8)), "");
  }

  // Sets the step's number to the next one.
  cluster::StepResult run(cluster::Step step) {
    step.set_step(++steps_);
    auto result = worker_->step(step);
    EXPECT_EQ(message_of(result.status()), "");
    return *std::move(result);
  }

 private:
  Backend backend_ = late_backend();
  std::unique_ptr<Worker> worker_;
  uint64_t steps_ = 0;
};

// Two prompts, one of them in two chunks and longer than a page, then one token of each sequence.
std::vector<cluster::Step> conversation() {
  std::vector<cluster::Step> steps(3);
  add_rows_in_slot(steps[0], 0, {3, 60, 7, 33, 12, 63, 5, 8, 21, 2, 9}, 0, {3, 1});
  add_rows_in_slot(steps[0], 1, {17, 4, 40}, 0, {5, 2});
  add_rows_in_slot(steps[1], 0, {6, 11, 30, 2, 19, 44, 13}, 11, {});
  for (const int slot : {0, 1}) {
    add_rows_in_slot(steps[2], slot, {25 + slot}, slot == 0 ? 18 : 3, {});
  }
  return steps;
}

class DeviceEdgesTest : public testing::TestWithParam<const char*> {};

TEST_P(DeviceEdgesTest, RoundedValuesAndFusedRopeChangeNoBit) {
  const Graph model = model_graph(GetParam());
  for (const Kept& kept : kKept) {
    SCOPED_TRACE(std::string(dtype_name(kept.weights)) + ", " + dtype_name(kept.pages));
    const program::Program plain = program_for(model, kept, false);
    const program::Program fused = program_for(model, kept, true);
    EXPECT_EQ(count_rounded(plain), 0);
    EXPECT_EQ(count_rounded(fused) > 0, kept.weights != DType::kF32);
    Rank apart(plain), together(fused);
    for (const cluster::Step& step : conversation()) {
      const auto wanted = apart.run(step), found = together.run(step);
      for (int i = 0; i < step.outputs_size(); ++i) {
        ASSERT_EQ(found.outputs(i).logits(), wanted.outputs(i).logits()) << "output " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DeviceEdgesTest,
                         testing::Values("llama", "qwen3", "gemma2", "mixtral", "stablelm", "rwkv6",
                                         "deepseek_v3"),
                         [](const auto& test) { return std::string(test.param); });

std::vector<float> logits_by(int ranks, const std::string& quantize) {
  InProcessOptions options{
      .model = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/data/configs/llama",
      .ranks = ranks,
      .quantize = quantize,
      .random_seed = 5,
      .backend = late_backend};
  const auto cluster = InProcessCluster::open(options);
  EXPECT_EQ(message_of(cluster.status()), "");
  EXPECT_GT(count_rounded((*cluster)->programs()[0]), 0);
  const auto group = (*cluster)->form({});
  EXPECT_EQ(message_of(group.status()), "");
  std::vector<float> logits;
  uint64_t number = 0;
  for (cluster::Step& step : conversation()) {
    step.set_step(++number);
    const auto results = (*group)->run(step);
    EXPECT_EQ(message_of(results.status()), "");
    for (int i = 0; i < step.outputs_size(); ++i) {
      const std::vector<float> row = logits_of(*results, i);
      logits.insert(logits.end(), row.begin(), row.end());
    }
  }
  return logits;
}

TEST(DeviceRanksTest, RanksThatGatherRoundedPartsHaveTheBitsOfOneRank) {
  for (const char* quantize : {"", "q8"}) {
    const std::vector<float> one = logits_by(1, quantize);
    EXPECT_EQ(one.size(), size_t{5 * 307});
    EXPECT_EQ(logits_by(2, quantize), one) << quantize;
    EXPECT_EQ(logits_by(3, quantize), one) << quantize;  // 41 or 42 columns of gate and up each.
  }
}

// Writes the config.json of a small Llama: heads have 8 columns, and all rows are multiples of 16
// bytes.
void write_llama(const std::filesystem::path& folder, int layers) {
  const std::filesystem::path config =
      std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/data/configs/llama/config.json";
  std::ifstream file(config);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto replace = [&text](const std::string& before, const std::string& after) {
    const size_t at = text.find(before);
    LOCKSTEP_CHECK(at != std::string::npos);
    text.replace(at, before.size(), after);
  };
  replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": " + std::to_string(layers));
  replace("\"intermediate_size\": 124", "\"intermediate_size\": 128");
  std::ofstream(folder / "config.json") << text;
}

Graph llama_of(int layers) {
  const TempFolder folder;
  write_llama(folder.path(), layers);
  auto model = describe_model(folder.path(), {}, 0);
  EXPECT_EQ(message_of(model.status()), "");
  return std::move(model->graph);
}

// Returns the number of kernel launches in a step that generates one token.
int64_t launches_of(const std::function<void(cluster::Step)>& run) {
  cluster::Step step;
  add_rows_in_slot(step, 0, {3}, 0, {0});
  run(step);
  const int64_t before = shim::launches();
  step = {};
  add_rows_in_slot(step, 0, {4}, 1, {});
  run(step);
  return shim::launches() - before;
}

int64_t launches_of(const program::Program& program) {
  Rank rank(program);
  return launches_of([&](const cluster::Step& step) { rank.run(step); });
}

int64_t launches_of_ranks(int layers, const std::function<Backend()>& backend) {
  const TempFolder folder;
  write_llama(folder.path(), layers);
  const auto cluster = InProcessCluster::open({.model = folder.path(),
                                               .ranks = 2,
                                               .strategy = Strategy::kReduce,
                                               .random_seed = 5,
                                               .backend = backend});
  EXPECT_EQ(message_of(cluster.status()), "");
  const auto group = (*cluster)->form({});
  EXPECT_EQ(message_of(group.status()), "");
  return launches_of([&, number = uint64_t{0}](cluster::Step step) mutable {
    step.set_step(++number);
    EXPECT_EQ(message_of((*group)->run(step).status()), "");
  });
}

int64_t launches_per_layer(const Kept& kept, bool fused) {
  return launches_of(program_for(llama_of(2), kept, fused)) -
         launches_of(program_for(llama_of(1), kept, fused));
}

// The 15 kernels are: norm, cast, q k v, two ropes, append, attend, cast, o, norm, cast, gate up,
// gated, cast, down. The casts, gated and both ropes are fused into other kernels. With codes, a
// cast is the copy of its input that a linear makes.
TEST(DeviceLaunchesTest, FusionReducesLlamasLayerFromFifteenKernelsToEight) {
  for (const DType weights : {DType::kBF16, DType::kQ8, DType::kQ4}) {
    const Kept kept = {weights, DType::kBF16};
    EXPECT_EQ(launches_per_layer(kept, false), 15) << dtype_name(weights);
    EXPECT_EQ(launches_per_layer(kept, true), 8) << dtype_name(weights);
  }
  const program::Program program = program_for(llama_of(2), kKept[1], true);
  EXPECT_EQ(count_of(program, program::ROPE_ATTENTION), 2);
  EXPECT_EQ(count_of(program, program::GATED_LINEAR), 2);
  EXPECT_EQ(count_of(program, program::CAST), 0);
}

// A sum over ranks, the residual's addition and the following norm are one kernel. It replaces the
// norm's kernel, which ranks that meet through the host launch, so the count is the same.
TEST(DeviceLaunchesTest, SumsInPeerMemoryAddNoKernelsToARank) {
  for (const auto& backend : {late_backend, late_peer_backend}) {
    const int64_t of_a_layer = launches_of_ranks(2, backend) - launches_of_ranks(1, backend);
    EXPECT_EQ(of_a_layer, 2 * 8);
  }
}

}  // namespace
}  // namespace lockstep
