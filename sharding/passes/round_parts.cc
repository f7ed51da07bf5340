// SPDX-License-Identifier: Apache-2.0
// Each group of a row is rounded separately, and a rank's columns are whole groups. So these
// columns get the same codes as in the whole row. Each column is rounded once instead of on every
// rank, and ranks send 3.6 times fewer bytes.
#include <algorithm>
#include <vector>

#include "base/numbers/quantization.h"
#include "sharding/passes/passes.h"
#include "sharding/rewriter.h"

namespace lockstep {
namespace {

// By value: the type to which all its readers round it; kNone if their types differ, or if a reader
// does not round.
std::vector<DType> common_rounding(const Graph& graph) {
  std::vector<DType> common(graph.values().size());
  std::vector<bool> read(graph.values().size());
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int value = node.inputs[i];
      const bool product = schema_of(node.op).multiplies() && i == 0;
      const DType wanted =
          product ? rounded_rows(graph.parameters()[node.parameters[0]].dtype) : DType::kNone;
      common[value] = !read[value] || common[value] == wanted ? wanted : DType::kNone;
      read[value] = true;
    }
  }
  return common;
}

// Whether the ranks' parts are whole groups; the last group of a row may be short.
bool between_groups(const Node& gather) {
  const auto& boundaries = gather.attributes.gather().boundaries();
  const int64_t cols = *boundaries.rbegin();
  return std::all_of(boundaries.begin(), boundaries.end(), [cols](int64_t boundary) {
    return boundary == cols || boundary % kRoundedGroup == 0;
  });
}

void gather_rounded(Rewriter& rewriter, const Node& gather, DType dtype) {
  Node all{.op = Op::kAllGather,
           .inputs = {rewriter.append_rounded(gather.inputs[0], dtype)},
           .attributes = gather.attributes};
  ValueInfo whole = rounded_info(rewriter.from().values()[gather.outputs[0]], dtype);
  rewriter.replace(gather.outputs[0],
                   rewriter.append(std::move(all), {std::move(whole)}).front().id);
}

}  // namespace

Graph round_parts(const Graph& graph, const CompileOptions& options) {
  if (!take_rounded_rows(options.workers)) return graph;
  const std::vector<DType> common = common_rounding(graph);
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    const DType dtype = node.op == Op::kAllGather ? common[node.outputs[0]] : DType::kNone;
    const bool rounds = dtype != DType::kNone && between_groups(node) &&
                        graph.values()[node.inputs[0]].dtype == DType::kF32;
    if (rounds) {
      gather_rounded(rewriter, node, dtype);
    } else {
      rewriter.copy(node);
    }
  }
  return std::move(rewriter).take();
}

}  // namespace lockstep
