// SPDX-License-Identifier: Apache-2.0
// Experts' linears round a row once per route and per linear: 16 times for gate and up of 8
// experts. This pass rounds the row once before these linears, to the same codes.
#include <map>
#include <utility>

#include "base/numbers/quantization.h"
#include "sharding/passes/passes.h"
#include "sharding/rewriter.h"

namespace lockstep {
namespace {

// The type to which a node rounds its input, if each input row belongs to a token and is read by
// several routes; kNone if the input is of another kind or is not rounded.
DType routed_rounding(const Graph& graph, const Node& node) {
  if (node.op != Op::kExpertLinear) return DType::kNone;
  const ValueInfo& x = graph.values()[node.inputs[0]];
  const bool by_route = x.rows == graph.values()[node.outputs[0]].rows;
  if (by_route || x.dtype != DType::kF32) return DType::kNone;
  return rounded_rows(graph.parameters()[node.parameters[0]].dtype);
}

}  // namespace

Graph round_routed(const Graph& graph, const CompileOptions& options) {
  if (!take_rounded_rows(options.workers)) return graph;
  Rewriter rewriter(graph);
  std::map<std::pair<int, DType>, int> rounded;
  for (const Node& node : graph.nodes()) {
    const DType dtype = routed_rounding(graph, node);
    if (dtype == DType::kNone) {
      rewriter.copy(node);
      continue;
    }
    const auto [found, fresh] = rounded.try_emplace({node.inputs[0], dtype}, -1);
    if (fresh) found->second = rewriter.append_rounded(node.inputs[0], dtype);
    rewriter.copy_reading(found->second, node);
  }
  return std::move(rewriter).take();
}

}  // namespace lockstep
