// SPDX-License-Identifier: Apache-2.0
// CompileOptions::weight_dtype decides how matrices are stored; vectors and routers are small and
// stay float32.
#include "base/check.h"
#include "base/numbers/quantization.h"
#include "sharding/passes/passes.h"
#include "sharding/rewriter.h"

namespace lockstep {
namespace {

DType stored_as(const Parameter& parameter, const CompileOptions& options) {
  const bool exact = parameter.is_vector() || parameter.role == program::ROUTER ||
                     parameter.role == program::POSITIONS;
  if (exact || !options.weight_dtype) return DType::kF32;
  LOCKSTEP_CHECK(!parameter.pieces.empty());
  const DType dtype = options.weight_dtype(parameter.pieces[0].source(), parameter.role);
  LOCKSTEP_CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16 ||
                 quantization(dtype));
  // No linear computes in float16, so the weight is widened; rows of an embedding are only copied.
  const bool widened = dtype == DType::kF16 && parameter.role != program::EMBEDDING;
  return widened ? DType::kF32 : dtype;
}

}  // namespace

Graph store_weights(const Graph& graph, const CompileOptions& options) {
  Rewriter rewriter(graph);
  for (const Node& node : graph.nodes()) {
    Node fresh{.op = node.op, .attributes = node.attributes};
    for (int input : node.inputs) fresh.inputs.push_back(rewriter.value(input));
    for (int id : node.parameters) {
      Parameter parameter = graph.parameters()[id];
      parameter.dtype = stored_as(parameter, options);
      fresh.parameters.push_back(rewriter.add_parameter(std::move(parameter)));
    }
    std::vector<ValueInfo> outputs;
    for (int output : node.outputs) outputs.push_back(graph.values()[output]);
    const std::vector<Value> values = rewriter.append(std::move(fresh), std::move(outputs));
    for (size_t i = 0; i < values.size(); ++i) rewriter.replace(node.outputs[i], values[i].id);
  }
  return std::move(rewriter).take();
}

}  // namespace lockstep
