// SPDX-License-Identifier: Apache-2.0
// Values of real kernels on several ranks agree with those of the interpreter. If they do not, the
// operator with the fault is named.
#include "tools/verify/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "operators/op.h"
#include "tests/tools/verify/broken_kernels.h"
#include "tests/tools/verify/verify_bench.h"
#include "tools/verify/report.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

// Together these models have every operator that models use.
const char* const kFolders[] = {"tests/data/goldens/deepseek_v2_groups",
                                "tests/data/goldens/granite4",
                                "goldens/rwkv7",
                                "tests/data/goldens/cohere_qk_norm",
                                "tests/data/goldens/ministral3",
                                "goldens/rwkv4",
                                "goldens/qwen3_next",
                                "goldens/gpt_neox_serial",
                                "tests/data/goldens/gemma4_moe"};

std::string case_name(const testing::TestParamInfo<const char*>& info) {
  return std::filesystem::path(info.param).filename().string();
}

program::Limits small_limits() {
  program::Limits limits;
  limits.set_rows(16);
  limits.set_outputs(16);
  limits.set_sequences(16);
  limits.set_context(64);
  limits.set_page_tokens(16);
  return limits;
}

class VerifyTest : public testing::TestWithParam<const char*> {};

// The number of linears whose bias is not named ".bias". The reference lacks their values.
int64_t other_biases(const Graph& model) {
  return std::ranges::count_if(model.nodes(), [&model](const Node& node) {
    if (node.op != Op::kLinear || node.parameters.size() < 2) return false;
    return !model.parameters()[node.parameters[1]].pieces[0].source().ends_with(".bias");
  });
}

TEST_P(VerifyTest, EveryValueAgreesWithTheInterpretersForAnyNumberOfRanks) {
  LOCKSTEP_NEEDS_TEST_DATA(GetParam());
  VerifyBench bench(GetParam());
  for (const Strategy strategy : {Strategy::kGather, Strategy::kReduce}) {
    for (const int ranks : {1, 3}) {
      const Verification found = bench.verify(ranks, strategy);
      EXPECT_FALSE(found.first) << ranks << " ranks: " << found.first->name;
      EXPECT_EQ(std::ssize(found.compared), found.values - other_biases(bench.model()));
      EXPECT_TRUE(found.suspects.empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, VerifyTest, testing::ValuesIn(kFolders), case_name);

std::set<Op> kernels_of(const Graph& model) {
  std::set<Op> ops;
  for (const Node& node : model.nodes()) ops.insert(node.op);
  return ops;
}

// The fault is on the second of two ranks.
TEST(VerifyFaultTest, AFaultInAnyOperatorIsNamed) {
  std::set<Op> tested;
  for (const char* folder : kFolders) {
    LOCKSTEP_NEEDS_TEST_DATA(folder);
    VerifyBench bench(folder);
    std::set<Op> ops = kernels_of(bench.model());
    ops.insert(Op::kGated);    // A pass replaces a product by kGated,
    ops.insert(Op::kAddNorm);  // and a sum before a norm by kAddNorm.
    for (const Op op : ops) {
      if (tested.contains(op)) continue;
      const std::vector<KernelEntry> kernels = kernels_with_broken(op);
      int backends = 0;
      const Verification found = bench.verify(2, Strategy::kGather, [&] {
        const bool second = backends++ == 1;
        return Backend{.device = host_device(),
                       .kernels = second ? std::span<const KernelEntry>(kernels) : cpu_kernels()};
      });
      if (!found.first) continue;  // This model's program does not have the operator.
      tested.insert(op);
      EXPECT_EQ(found.first->op, op_name(op)) << folder << ": " << found.first->name;
      const bool addends = op == Op::kEmbed || op == Op::kMap;  // The ranks' results are summed.
      EXPECT_EQ(found.first->rank, addends ? -1 : 1) << folder << ": " << found.first->name;
      EXPECT_EQ(found.first->row, 0) << folder << ": " << found.first->name;
    }
  }
  for (int i = 1; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    // Collectives are tested below. The other operators here compute nothing, or are only for GPUs
    // or for weights other than float32.
    const bool other = op == Op::kAllGather || op == Op::kAllReduce || op == Op::kColumns ||
                       op == Op::kCast || op == Op::kRoundGroups || op == Op::kRopeAttention ||
                       op == Op::kGatedLinear;
    EXPECT_TRUE(other || tested.contains(op)) << op_name(op) << " was not broken";
  }
}

// Changes a number in the result of one rank's operator.
class LyingGroup final : public Group {
 public:
  LyingGroup(Group& group, const program::Program& program, program::Op op)
      : group_(group), program_(program), op_(op) {}
  const GroupInfo& info() const override { return group_.info(); }
  absl::Status send(std::shared_ptr<const cluster::Step> step) override {
    return group_.send(std::move(step));
  }
  absl::StatusOr<std::optional<RankResults>> receive(int64_t until_ms) override {
    ASSIGN_OR_RETURN(std::optional<RankResults> results, group_.receive(until_ms));
    if (!results.has_value()) return results;
    for (cluster::StepValue& value : *(*results)[1].mutable_values()) {
      for (const program::Instruction& instruction : program_.instructions()) {
        const bool made = instruction.outputs_size() > 0 && instruction.outputs(0) == value.value();
        if (!made || instruction.op() != op_ || value.rows().empty()) continue;
        const float wrong = 1e6f;
        std::memcpy(value.mutable_rows()->data() + value.rows().size() - sizeof(wrong), &wrong,
                    sizeof(wrong));
      }
    }
    return results;
  }
  absl::Status ask_logits(uint64_t step, int output) override {
    return group_.ask_logits(step, output);
  }
  absl::StatusOr<std::optional<std::vector<float>>> receive_logits(int64_t until_ms) override {
    return group_.receive_logits(until_ms);
  }
  void abort() override { group_.abort(); }

 private:
  Group& group_;
  const program::Program& program_;
  const program::Op op_;
};

TEST(VerifyFaultTest, ACollectiveThatIsWrongOnOneRankIsNamed) {
  VerifyBench bench("tests/data/goldens/ministral3");
  for (const program::Op op : {program::ALL_GATHER, program::ALL_REDUCE}) {
    const Strategy strategy = op == program::ALL_GATHER ? Strategy::kGather : Strategy::kReduce;
    const auto programs = compile(
        bench.model(),
        {.workers = std::vector<WorkerFacts>(3), .strategy = strategy, .limits = small_limits()});
    ASSERT_EQ(message_of(programs.status()), "");
    std::unique_ptr<LyingGroup> lying;
    const Verification found = bench.verify(3, strategy, {}, [&](Group& group) {
      lying = std::make_unique<LyingGroup>(group, (*programs)[1], op);
      return lying.get();
    });
    ASSERT_TRUE(found.first);
    EXPECT_EQ(found.first->op, op == program::ALL_GATHER ? "all_gather" : "all_reduce");
    EXPECT_EQ(found.first->rank, 1);
    EXPECT_EQ(found.first->row, static_cast<int64_t>(kVerifyPrompt.size()) - 1);
  }
}

TEST(VerifyPromptTest, APromptMayTakeSeveralSteps) {
  VerifyBench bench("tests/data/goldens/granite4");  // This model has pages and state blocks.
  const Verification whole = bench.verify(2, Strategy::kGather);
  const Verification cut = bench.verify(2, Strategy::kGather, {}, {}, 3);
  EXPECT_FALSE(cut.first);
  EXPECT_EQ(cut.compared.size(), whole.compared.size());
}

TEST(VerifyPromptTest, APromptBeyondTheOriginalLengthUsesTheFrequenciesForLongPrompts) {
  std::vector<int32_t> ids(40);  // The original length is 32.
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(3 + 7 * i % 90);
  VerifyBench bench("tests/data/goldens/phi3_longrope", ids);
  for (const int64_t rows : {30, 17}) {
    const Verification found = bench.verify(2, Strategy::kGather, {}, {}, rows);
    EXPECT_FALSE(found.first) << rows << " rows: " << found.first->name;
    EXPECT_FALSE(found.compared.empty());
  }
}

// If the reference lacks values, all operators that may have the fault are named.
TEST(VerifyPromptTest, EveryOperatorBetweenComparedValuesIsASuspect) {
  VerifyBench bench("tests/data/goldens/ministral3");
  TestTensors& reference = bench.reference();
  const std::string layer = "model.layers.1.";
  std::erase_if(reference, [&](const auto& one) {
    return one.first.starts_with(layer) && (one.first.find("rope") != std::string::npos ||
                                            one.first.find("position_scale") != std::string::npos ||
                                            one.first == layer + "attention");
  });
  reference.erase("rope_table");
  reference[layer + "self_attn.o_proj"].values[3] += 1;
  const Verification found = bench.verify(2, Strategy::kGather);
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->name, layer + "self_attn.o_proj");
  std::set<std::string> ops;
  for (const Suspect& suspect : found.suspects) ops.insert(suspect.op);
  EXPECT_EQ(ops, (std::set<std::string>{"rope_table", "rope", "position_scale", "attention",
                                        "all_gather", "linear"}));
  const auto programs =
      compile(bench.model(), {.workers = std::vector<WorkerFacts>(2), .limits = small_limits()});
  ASSERT_EQ(message_of(programs.status()), "");
  const std::string text = verify_text(
      found,
      {.program = &programs->front(), .reference = "a file", .tokens = 7, .tolerance = 2e-4});
  EXPECT_THAT(text, HasSubstr("The first that differs: linear, which makes " + layer));
  EXPECT_THAT(text, HasSubstr("position_scale ("));
}

}  // namespace
}  // namespace lockstep
