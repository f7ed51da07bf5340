// SPDX-License-Identifier: Apache-2.0
// Compares programs for GPUs with those for CPUs: neither values stored as bfloat16 nor fused
// operators change a result.
#include <gtest/gtest.h>

#include "base/status.h"
#include "proto/validate/validate.h"
#include "tests/sharding/test_models.h"

namespace lockstep {
namespace {

const naive::Sequence kSequence = {.tokens = {1, 60, 7, 33, 12, 63, 5}, .outputs = {0, 4, 6}};

const WorkerFacts kGpu = {.device = "cuda 0000:01:00.0",
                          .numeric_class = "cuda.exact.v1@sm_90x132.plain"};

class GpuProgramsTest : public testing::TestWithParam<const char*> {};

TEST_P(GpuProgramsTest, GpuProgramsComputeTheSameAsCpuPrograms) {
  const Graph model = model_graph(GetParam());
  const naive::Tensors tensors = random_tensors(model, 17);
  for (const int ranks : {1, 3}) {
    CompileOptions options = options_for(ranks, Strategy::kGather, DType::kBF16);
    const auto cpus = compile_graphs(model, options);
    options.workers.assign(static_cast<size_t>(ranks), kGpu);
    const auto gpus = compile(model, options);
    ASSERT_EQ(message_of(gpus.status()), "");
    const naive::Logits wanted = naive::interpret(*cpus, tensors, kSequence);
    EXPECT_EQ(naive::interpret(*gpus, tensors, kSequence), wanted) << ranks << " ranks";
    for (const program::Program& program : *gpus) EXPECT_EQ(message_of(validate(program)), "");
  }
}

TEST_P(GpuProgramsTest, InputsOfQuantizedLinearsAreBFloat16) {
  CompileOptions options = options_for(2, Strategy::kGather, DType::kQ8);
  options.workers.assign(2, kGpu);
  const auto graphs = compile_graphs(model_graph(GetParam()), options);
  ASSERT_EQ(message_of(graphs.status()), "");
  for (const Graph& graph : *graphs) {
    for (const Node& node : graph.nodes()) {
      if (node.op != Op::kLinear && node.op != Op::kGatedLinear) continue;
      const bool codes = graph.parameters()[node.parameters[0]].dtype == DType::kQ8;
      EXPECT_EQ(graph.values()[node.inputs[0]].dtype, codes ? DType::kBF16 : DType::kF32);
    }
    EXPECT_EQ(count_ops(graph, Op::kRoundGroups), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GpuProgramsTest, testing::ValuesIn(kModels),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lockstep
