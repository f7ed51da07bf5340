// SPDX-License-Identifier: Apache-2.0
// A bfloat16 dot product rounds its input on every ISA, and so does a GPU's linear with quantized
// weights. A separate operator rounds each value once, and a later collective moves half the bytes.
#include <vector>

#include "base/numbers/quantization.h"
#include "sharding/passes/passes.h"
#include "sharding/rewriter.h"

namespace lockstep {
namespace {

// Whether a product with weights of this type rounds its input rows to bfloat16.
bool rounds_rows(Op op, DType weight, bool gpus) {
  return weight == DType::kBF16 || (gpus && op == Op::kLinear && quantization(weight).has_value());
}

}  // namespace

Graph round_inputs(const Graph& graph, const CompileOptions& options) {
  const bool gpus = are_gpus(options.workers);
  Rewriter rewriter(graph);
  std::vector<int> casts(graph.values().size(), -1);
  for (const Node& node : graph.nodes()) {
    const bool rounds = schema_of(node.op).multiplies() &&
                        rounds_rows(node.op, graph.parameters()[node.parameters[0]].dtype, gpus) &&
                        graph.values()[node.inputs[0]].dtype == DType::kF32;
    if (!rounds) {
      rewriter.copy(node);
      continue;
    }
    int& cast = casts[node.inputs[0]];
    if (cast < 0) cast = rewriter.append_rounded(node.inputs[0], DType::kBF16);
    rewriter.copy_reading(cast, node);
  }
  return std::move(rewriter).take();
}

}  // namespace lockstep
