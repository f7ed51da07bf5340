// SPDX-License-Identifier: Apache-2.0
// The proof of the kernels in .cu files at load, on a device without a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/status.h"
#include "base/threads/thread_pool.h"
#include "tests/support/devices/late_device.h"
#include "tests/support/files/temp_folder.h"
#include "tests/support/steps.h"
#include "tests/support/tiny_program.h"
#include "worker/collectives/devices/staged.h"
#include "worker/collectives/single.h"
#include "worker/kernel_choice/proof.h"
#include "worker/kernel_choice/proof_cache.h"
#include "worker/kernel_choice/proven_kernels.h"
#include "worker/kernels/cuda/hopper/linear/expert_linear_wgmma.h"
#include "worker/worker.h"

namespace lockstep {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One linear for each type of weights, with a bias.
program::Program linears(const Backend& backend) {
  constexpr int64_t kDepth = 70, kCols = 20;
  ProgramBuilder b(0, 1, 100, kDepth);
  for (const program::DType type : {program::F32, program::BF16, program::F16, program::Q4}) {
    const auto x = type == program::Q4 ? program::F32 : type;
    const std::string name = "w" + std::to_string(type);
    b.add(program::LINEAR, {b.value("x", kDepth, program::TOKENS, x)},
          {b.weight(name, program::LINEAR_WEIGHT, kCols, kDepth, 0, kCols, type),
           b.weight(name + "b", program::BIAS, 1, kCols, 0, kCols)},
          {b.value("y", kCols)});
  }
  b.program.set_numeric_class(backend.numeric_class);
  b.program.mutable_limits()->set_rows(70);
  return b.program;
}

// Like linears(), for gated_linear.
program::Program gated_linears(const Backend& backend) {
  constexpr int64_t kDepth = 70, kCols = 11;
  ProgramBuilder b(0, 1, 100, kDepth);
  for (const program::DType type : {program::BF16, program::Q8, program::Q4M}) {
    const std::string name = "w" + std::to_string(type);
    b.add(program::GATED_LINEAR, {b.value("x", kDepth, program::TOKENS, program::BF16)},
          {b.weight(name, program::LINEAR_WEIGHT, 2 * kCols, kDepth, 0, 2 * kCols, type),
           b.weight(name + "b", program::BIAS, 1, 2 * kCols, 0, 2 * kCols)},
          {b.value("y", kCols)})
        .mutable_attributes()
        ->mutable_map()
        ->set_function(program::SILU);
  }
  b.program.set_numeric_class(backend.numeric_class);
  b.program.mutable_limits()->set_rows(70);
  return b.program;
}

std::vector<std::string> chosen_names(const program::Program& program, const Backend& backend,
                                      const Proof& proof) {
  std::vector<std::string> names;
  const auto chosen = chosen_kernels(program, backend, proof);
  for (const KernelEntry* kernel : *chosen) names.emplace_back(kernel->name);
  return names;
}

Proof proven(const program::Program& program, const Backend& backend) {
  ThreadPool pool(2);
  Proof proof = untried(program, backend);
  EXPECT_EQ(message_of(prove(program, backend, WeightSource(RandomWeights(7)), pool,
                             {.budget_ms = 600'000}, &proof)),
            "");
  return proof;
}

// Expects all kernels to be proven without a complaint; returns the names of the chosen ones.
std::vector<std::string> names_proven(const program::Program& program, const Backend& backend) {
  const Proof proof = proven(program, backend);
  EXPECT_TRUE(proof.complete());
  EXPECT_THAT(complaints(proof, 20'000), ElementsAre());
  return chosen_names(program, backend, proof);
}

TEST(DeviceProofTest, TensorCoreKernelsAgreeWithPlainOnes) {
  const Backend backend = late_backend();
  EXPECT_THAT(names_proven(linears(backend), backend),
              ElementsAre("linear_f32_cuda_shim", "linear_mma_bf16_cuda_shim",
                          "linear_mma_f16_cuda_shim", "linear_mma_q4_cuda_shim"));
}

TEST(DeviceProofTest, TensorCoreKernelsOfGatedLinearsAgreeWithPlainOnes) {
  const Backend backend = late_backend();
  EXPECT_THAT(names_proven(gated_linears(backend), backend),
              ElementsAre("gated_linear_mma_bf16_cuda_shim", "gated_linear_mma_q8_cuda_shim",
                          "gated_linear_mma_q4m_cuda_shim"));
}

KernelFn original = nullptr;

// Simulates a block of threads that reads the wrong weights.
const char* one_column_wrong(const KernelArgs& args) {
  if (const char* failure = original(args); failure != nullptr) return failure;
  KernelArgs again = args;
  again.out[0].data = args.out[0].row<float>(0) + 5;
  again.out[0].cols = 1;
  again.in[1].rows = 1;
  return original(again);
}

TEST(DeviceProofTest, AColumnWithTheValuesOfAnotherIsFound) {
  Backend backend = late_backend();
  std::vector<KernelEntry> kernels(backend.kernels.begin(), backend.kernels.end());
  for (KernelEntry& kernel : kernels) {
    if (std::string(kernel.name) != "linear_mma_q4_cuda_shim") continue;
    original = kernel.run;
    kernel.run = one_column_wrong;
  }
  backend.kernels = kernels;
  const program::Program program = linears(backend);
  const Proof proof = proven(program, backend);
  EXPECT_THAT(complaints(proof, 20'000),
              ElementsAre(HasSubstr(
                  "linear q4 [20, 70] of f32 rows with bias: "
                  "linear_mma_q4_cuda_shim is not used: with 70 rows, the error of row ")));
  EXPECT_THAT(complaints(proof, 20'000), ElementsAre(HasSubstr("column 5 is ")));
  EXPECT_THAT(
      chosen_names(program, backend, proof),
      ElementsAre("linear_f32_cuda_shim", "linear_mma_bf16_cuda_shim", "linear_mma_f16_cuda_shim",
                  AnyOf("linear_q4_cuda_shim", "linear_wgmma_q4_cuda_shim")));
}

// One attention: four heads, of which each two share a KV head.
program::Program attention_program(const Backend& backend, program::Op op,
                                   program::DType pages = program::BF16) {
  constexpr int64_t kHeads = 4, kKvHeads = 2, kDim = 16;
  ProgramBuilder b(0, 1, 100, kHeads * kDim);
  program::State* state = b.program.add_states();
  state->set_dtype(pages);
  state->mutable_kv()->set_kv_heads(kKvHeads);
  state->mutable_kv()->set_k_dim(kDim);
  state->mutable_kv()->set_v_dim(kDim);
  std::vector<int> values = {b.value("q", kHeads * kDim), b.value("k", kKvHeads * kDim),
                             b.value("v", kKvHeads * kDim)};
  const bool rotates = op == program::ROPE_ATTENTION;
  if (rotates) values.push_back(b.value("table", kDim));
  std::vector<int> weights = {b.weight("sinks", program::BIAS, 1, kHeads, 0, kHeads)};
  program::AttentionAttrs* attrs = b.add(op, values, weights, {b.value("out", kHeads * kDim)})
                                       .mutable_attributes()
                                       ->mutable_attention();
  attrs->set_head_dim(kDim);
  attrs->set_v_dim(kDim);
  attrs->set_heads(kHeads);
  attrs->set_kv_heads(kKvHeads);
  attrs->set_scale(0.5f);
  attrs->set_window(300);
  if (rotates) attrs->set_rotary_dim(kDim);
  for (const int head : {0, 1, 1, 0}) attrs->add_kv_head_of(head);
  b.program.set_numeric_class(backend.numeric_class);
  b.program.mutable_limits()->set_rows(70);
  b.program.mutable_limits()->set_page_tokens(16);
  return b.program;
}

TEST(DeviceProofTest, AttentionOfFewRowsAndOfPromptsHasTheBitsOfTheOtherKernel) {
  const Backend backend = late_backend();
  for (const auto& [op, pages] : {std::pair(program::ATTENTION, program::BF16),
                                  std::pair(program::ROPE_ATTENTION, program::BF16),
                                  std::pair(program::ATTENTION, program::I8),
                                  std::pair(program::ROPE_ATTENTION, program::I8)}) {
    const program::Program program = attention_program(backend, op, pages);
    const Proof proof = proven(program, backend);
    EXPECT_TRUE(proof.complete());
    EXPECT_THAT(complaints(proof, 20'000), ElementsAre());
    const std::string name(op_name(static_cast<Op>(op)));
    const std::string type = pages == program::I8 ? "i8" : "bf16";
    EXPECT_THAT(chosen_names(program, backend, proof),
                ElementsAre(AnyOf(name + "_wgmma_" + type + "_cuda_shim",
                                  name + "_rows_" + type + "_cuda_shim",
                                  name + "_" + type + "_cuda_shim")));
    ASSERT_EQ(proof.trials.size(), pages == program::I8 ? 2u : 3u);
    for (const Trial& trial : proof.trials) {
      ASSERT_EQ(trial.rows.size(), 4u);
      EXPECT_EQ(trial.rows[3].rows, 70) << "prompts with all rows of a step";
      EXPECT_GT(trial.rows[0].ns, 0);
    }
  }
}

// Simulates a kernel that computes other scores.
const char* double_scale(const KernelArgs& args) {
  KernelArgs wrong = args;
  wrong.attrs.attention().scale *= 2;
  return original(wrong);
}
const char* double_scale_of_prompts(const KernelArgs& args) {
  return args.step->rows > args.step->sequence_count ? double_scale(args) : original(args);
}

TEST(DeviceProofTest, AnAttentionWithOtherBitsIsRefused) {
  Backend backend = late_backend();
  std::vector<KernelEntry> kernels(backend.kernels.begin(), backend.kernels.end());
  for (KernelEntry& kernel : kernels) {
    const std::string name = kernel.name;
    if (name == "attention_wgmma_bf16_cuda_shim") kernel.run = double_scale_of_prompts;
    if (name != "attention_rows_bf16_cuda_shim") continue;
    original = kernel.run;
    kernel.run = double_scale;
  }
  backend.kernels = kernels;
  const program::Program program = attention_program(backend, program::ATTENTION);
  const Proof untrusted = untried(program, backend);
  EXPECT_THAT(chosen_names(program, backend, untrusted), ElementsAre("attention_bf16_cuda_shim"));
  const Proof proof = proven(program, backend);
  EXPECT_THAT(
      complaints(proof, 20'000),
      ElementsAre(HasSubstr("attention bf16 [64, 16] of f32 rows: "
                            "attention_wgmma_bf16_cuda_shim is not used: with 70 rows, row "),
                  HasSubstr("attention bf16 [64, 16] of f32 rows: "
                            "attention_rows_bf16_cuda_shim is not used: with 7 rows, row ")));
  EXPECT_THAT(complaints(proof, 20'000), Each(HasSubstr(" has other bits")));
  EXPECT_THAT(chosen_names(program, backend, proof), ElementsAre("attention_bf16_cuda_shim"));
}

// One expert_linear with a bias and two routes per token. A step has enough rows for wgmma.
constexpr int64_t kExperts = 5, kChosen = 2, kExpertTokens = 260, kExpertCols = 400;
program::Program experts(const Backend& backend, program::DType type = program::BF16) {
  constexpr int64_t kDepth = 40, kRows = kExperts * kExpertCols;
  constexpr int kRoutes = 2;  // The routes' row domain.
  ProgramBuilder b(0, 1, 100, kDepth);
  program::RowDomain& routes = *b.program.add_row_domains();
  routes.set_of(program::TOKENS);
  routes.set_rows_each(kChosen);
  const std::vector<int> weights = {
      b.weight("w", program::LINEAR_WEIGHT, kRows, kDepth, 0, kRows, type),
      b.weight("b", program::BIAS, 1, kRows, 0, kRows)};
  for (const int weight : weights) b.program.mutable_weights(weight)->set_matrices(kExperts);
  b.add(program::EXPERT_LINEAR,
        {b.value("x", kDepth, program::TOKENS, program::BF16),
         b.value("ids", 1, kRoutes, program::I32)},
        weights, {b.value("y", kExpertCols, kRoutes)})
      .mutable_attributes()
      ->mutable_expert()
      ->set_experts(kExperts);
  b.program.set_numeric_class(backend.numeric_class);
  b.program.mutable_limits()->set_rows(kExpertTokens);
  return b.program;
}

const std::string kByWgmma = "expert_linear_wgmma_bf16_cuda_shim";
const std::string kByMma = "expert_linear_mma_bf16_cuda_shim";

int calls_by_wgmma = 0;
const char* counted(const KernelArgs& args) {
  ++calls_by_wgmma;
  return original(args);
}
Device* planted_on = nullptr;

// Counts the routes of each id of the last call, and refuses it.
std::map<int32_t, int> routes_of_ids;
const char* without_an_image(const KernelArgs& args) {
  std::vector<int32_t> ids(static_cast<size_t>(args.in[1].rows));
  planted_on->copy_out(ids.data(), static_cast<const std::byte*>(args.in[1].data),
                       std::ssize(ids) * 4);
  if (const char* failure = planted_on->synchronize(); failure != nullptr) return failure;
  routes_of_ids.clear();
  for (const int32_t id : ids) ++routes_of_ids[id];
  return "no kernel image is available";
}

// Changes one bit, if the kernel computes by wgmma.
constexpr int64_t kWrongRow = 300, kWrongCol = kExpertCols - 1;
const char* one_bit_wrong(const KernelArgs& args) {
  if (const char* failure = original(args); failure != nullptr) return failure;
  const TensorView& out = args.out[0];
  if (out.rows <= kWrongRow) return nullptr;
  auto* const at = reinterpret_cast<std::byte*>(out.row<float>(kWrongRow) + kWrongCol);
  uint32_t bits = 0;
  planted_on->copy_out(&bits, at, sizeof(bits));
  if (const char* failure = planted_on->synchronize(); failure != nullptr) return failure;
  bits ^= 1;
  planted_on->copy_in(at, &bits, sizeof(bits));
  return planted_on->synchronize();
}

// The table begins with wgmma's kernels, as a GPU's does. `run` replaces that of kByWgmma.
struct ExpertBackend {
  explicit ExpertBackend(KernelFn run) : backend(late_backend()) {
    kernels.assign(backend.kernels.begin(), backend.kernels.end());
    std::stable_partition(kernels.begin(), kernels.end(), [](const KernelEntry& kernel) {
      return std::string_view(kernel.name).find("_wgmma_") != std::string_view::npos;
    });
    for (KernelEntry& kernel : kernels) {
      if (kernel.name != kByWgmma) continue;
      original = kernel.run;
      if (run != nullptr) kernel.run = run;
    }
    backend.kernels = kernels;
    backend.proof_ms = 20'000;
    planted_on = backend.device.get();
    calls_by_wgmma = 0;
  }
  Backend backend;
  std::vector<KernelEntry> kernels;
};

// A clock by which all calls take the same time, so long that a trial times one call.
int64_t slow_clock() {
  static int64_t now_ns = 0;
  return now_ns += 30'000'000;
}

Proof proven_in(const program::Program& program, const Backend& backend, int64_t budget_ms) {
  ThreadPool pool(2);
  Proof proof = untried(program, backend);
  EXPECT_EQ(message_of(prove(program, backend, WeightSource(RandomWeights(7)), pool,
                             {.budget_ms = budget_ms, .now_ns = slow_clock}, &proof)),
            "");
  return proof;
}

TEST(DeviceProofTest, ExpertsByWgmmaAreUsedIfTheyHaveTheBitsOfMmaSync) {
  const ExpertBackend fake(nullptr);
  for (const program::DType type : {program::BF16, program::Q4}) {
    const program::Program program = experts(fake.backend, type);
    const Proof proof = proven_in(program, fake.backend, 20'000);
    EXPECT_TRUE(proof.complete());
    EXPECT_THAT(complaints(proof, 20'000), ElementsAre());
    EXPECT_THAT(chosen_names(program, fake.backend, proof), ElementsAre(HasSubstr("_wgmma_")));
    ASSERT_EQ(proof.trials.size(), 2u);
    for (const Trial& trial : proof.trials) {
      std::vector<int64_t> rows;
      for (const TriedRows& tried : trial.rows) rows.push_back(tried.rows);
      EXPECT_THAT(rows, ElementsAre(520, 260, 130, 64, 8, 520));
      EXPECT_GT(trial.rows.front().ns, 0);
      EXPECT_EQ(trial.rows.back().ns, 0) << "the same number of rows counts once";
    }
  }
  // The trial's largest cases are computed by wgmma.
  EXPECT_GT(cuda_shim::expert_wgmma_tile_rows(DType::kBF16, kExpertTokens * kChosen, kExperts,
                                              kExpertCols, 6),
            0);
}

TEST(DeviceProofTest, ExpertsWithOneWrongBitAreRefused) {
  const ExpertBackend fake(one_bit_wrong);
  const program::Program program = experts(fake.backend);
  const Proof proof = proven_in(program, fake.backend, 20'000);
  EXPECT_THAT(complaints(proof, 20'000),
              ElementsAre("expert_linear bf16 5 x [400, 40] with bias: " + kByWgmma +
                          " is not used: with 520 rows, row 300, column 399 has other bits"));
  EXPECT_THAT(chosen_names(program, fake.backend, proof), ElementsAre(kByMma));
}

TEST(DeviceProofTest, ExpertsThatCannotBeQueuedAreRefused) {
  const ExpertBackend fake(without_an_image);
  const program::Program program = experts(fake.backend);
  const Proof proof = proven_in(program, fake.backend, 20'000);
  EXPECT_THAT(complaints(proof, 20'000),
              ElementsAre(HasSubstr("it cannot run on 520 rows: no kernel image is available")));
  EXPECT_THAT(chosen_names(program, fake.backend, proof), ElementsAre(kByMma));
  // Expert 0 has no row, expert 3 has whole tiles, and two ids are of no expert.
  const std::map<int32_t, int> planned = {{-1, 1}, {1, 1}, {2, 7}, {3, 384}, {4, 126}, {5, 1}};
  EXPECT_EQ(routes_of_ids, planned);
}

TEST(DeviceProofTest, UntriedExpertsAreComputedByMmaSync) {
  const ExpertBackend fake(counted);
  const program::Program program = experts(fake.backend);
  const Proof proof = proven_in(program, fake.backend, 0);
  EXPECT_EQ(calls_by_wgmma, 0);
  EXPECT_THAT(complaints(proof, 20'000),
              ElementsAre(HasSubstr("expert_linear bf16 5 x [400, 40] with bias; ")));
  EXPECT_THAT(chosen_names(program, fake.backend, proof), ElementsAre(kByMma));
}

TEST(DeviceProofTest, NothingIsTriedWhereExpertsHaveOneKernel) {
  ExpertBackend fake(counted);
  std::erase_if(fake.kernels, [](const KernelEntry& kernel) { return kernel.name == kByWgmma; });
  fake.backend.kernels = fake.kernels;
  const program::Program program = experts(fake.backend);
  EXPECT_TRUE(untried(program, fake.backend).trials.empty());
  const auto chosen = chosen_kernels(program, fake.backend, Proof());
  EXPECT_EQ((*chosen)[0], nullptr) << "bind() takes the first kernel of the table";
}

// The name of the kernel that a start of a worker binds; `calls_by_wgmma` counts this start's.
std::string started(const ExpertBackend& fake, const TempFolder& temp) {
  calls_by_wgmma = 0;
  ThreadPool pool(2);
  std::vector<std::string> kernels;
  const auto bindings =
      bind_proven(experts(fake.backend), fake.backend, WeightSource(RandomWeights(7)), pool,
                  {.folder = temp.path().string(), .now_ns = slow_clock}, &kernels);
  EXPECT_TRUE(kernels.empty()) << "each rank may choose alone";
  return bindings.ok() ? bindings->kernels[0]->name : message_of(bindings.status());
}

TEST(DeviceProofTest, TheProofOfExpertsIsRemembered) {
  const ExpertBackend fake(counted);
  const TempFolder temp;
  EXPECT_EQ(started(fake, temp), kByWgmma);
  EXPECT_GT(calls_by_wgmma, 0);
  EXPECT_EQ(started(fake, temp), kByWgmma);
  EXPECT_EQ(calls_by_wgmma, 0);
  const std::vector<ProofRecord> records = read_proofs(temp.path().string());
  ASSERT_EQ(records.size(), 1u);
  ASSERT_EQ(records[0].lines.size(), 2u);
  EXPECT_TRUE(records[0].lines[0].chosen);
  EXPECT_FALSE(records[0].lines[1].chosen);
}

TEST(DeviceProofTest, ExpertsThatEndTheProcessTwiceAreRefused) {
  const ExpertBackend fake(counted);
  const TempFolder temp;
  const program::Program program = experts(fake.backend);
  for (const int ends : {1, 2}) {
    Proof proof = untried(program, fake.backend);
    ProofCache cache(temp.path().string(), proof_facts(program, fake.backend), proof);
    cache.load(&proof);
    EXPECT_EQ(proof.trials[0].kernel, kByWgmma);
    EXPECT_EQ(proof.trials[0].verdict, Verdict::kUnproven) << ends;
    cache.begin(proof.trials[0], proof);  // The process ends here.
  }
  EXPECT_EQ(started(fake, temp), kByMma);
  EXPECT_EQ(calls_by_wgmma, 0);
}

TEST(DeviceProofTest, AWorkerComputesWithProvenKernels) {
  std::vector<std::string> answers;
  for (const bool proves : {false, true}) {
    Backend backend = late_backend();
    if (proves) backend.proof_ms = 600'000;
    cluster::Assignment assignment;
    *assignment.mutable_program() = layer_program();
    assignment.mutable_program()->set_numeric_class(backend.numeric_class);
    assignment.set_random_weights(true);
    assignment.set_random_seed(7);
    assignment.set_max_pages(16);
    auto worker = Worker::load(assignment, staged_collective(single_collective(), *backend.device),
                               {.threads = 2, .backend = &backend});
    ASSERT_EQ(message_of(worker.status()), "");
    EXPECT_EQ((*worker)->kernels().empty(), !proves);
    if (proves) {
      EXPECT_EQ((*worker)->kernels().front(), "linear_f32_cuda_shim");
    }
    ASSERT_EQ(message_of((*worker)->start(8)), "");
    cluster::Step step;
    step.set_step(1);
    add_rows(step, {3, 99, 4}, 0, {1, 0});
    const auto result = (*worker)->step(step);
    ASSERT_EQ(message_of(result.status()), "");
    answers.push_back(result->outputs(0).SerializeAsString());
  }
  EXPECT_EQ(answers[0], answers[1]);
}

}  // namespace
}  // namespace lockstep
