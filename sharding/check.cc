// SPDX-License-Identifier: Apache-2.0
// Checks nodes by the operators' rows (operators/schema/schema.h), as proto/validate checks
// instructions.
#include "sharding/check.h"

#include <string>
#include <vector>

#include "base/status.h"
#include "operators/schema/schema.h"
#include "proto/attributes.h"
#include "proto/validate/validate.h"
#include "sharding/text.h"

namespace lockstep {
namespace {

// Checks that operands exist and outputs are made once; returns the problem, or "".
std::string check_operands(const Graph& graph, const Node& node, std::vector<bool>& made) {
  const OperatorSchema& schema = schema_of(node.op);
  if (schema.op == Op::kNone) return "no operator";
  Finding finding;
  const int count = static_cast<int>(node.inputs.size() + node.parameters.size());
  if (!finding.within("number of inputs", static_cast<int64_t>(node.inputs.size()),
                      schema.required_values(), schema.value_count()) ||
      !finding.within("number of operands", count, schema.required_count(), schema.input_count()) ||
      !finding.equal("number of outputs", static_cast<int64_t>(node.outputs.size()),
                     schema.output_count())) {
    return finding.text;
  }
  const auto exists = [&](int value) { return 0 <= value && value < std::ssize(made); };
  for (const int input : node.inputs) {
    if (!exists(input) || !made[input]) return "an input must be made before it is read";
  }
  for (const int id : node.parameters) {
    if (id < 0 || id >= std::ssize(graph.parameters())) return "a parameter must exist";
  }
  for (const int output : node.outputs) {
    if (!exists(output) || made[output]) return "an output must be made once";
    made[output] = true;
  }
  return "";
}

std::string check_rows(const Graph& graph, const Node& node) {
  std::vector<int> in, out;
  for (const int input : node.inputs) in.push_back(graph.values()[input].rows);
  for (const int output : node.outputs) out.push_back(graph.values()[output].rows);
  return check_row_rule(schema_of(node.op), in, out);
}

// Operands are values first, then parameters, in the kernels' order.
std::string check_node(const Graph& graph, const Node& node) {
  const OperatorSchema& schema = schema_of(node.op);
  if (attrs_kind(node.attributes) != schema.attrs) return "attributes must be the operator's";
  OperatorCall call{.attrs = bind_attributes(node.attributes)};
  const auto shape = [&](int value) {
    const ValueInfo& info = graph.values()[value];
    const program::RowDomain& rows = graph.row_domains[info.rows];
    return OperandShape{.cols = info.axis.columns(),
                        .dtype = info.dtype,
                        .present = true,
                        .rows_each = rows.of() == program::TOKENS ? rows.rows_each() : 0};
  };
  size_t i = 0;
  for (const int input : node.inputs) call.in[i++] = shape(input);
  for (const int id : node.parameters) {
    const Parameter& parameter = graph.parameters()[id];
    if (!role_fits(schema.inputs[i].kind, parameter.role)) {
      return std::string(schema.inputs[i].name) + " must be of another role than " +
             program::Role_Name(parameter.role);
    }
    call.in[i++] = {.rows = parameter.all_rows(),
                    .cols = parameter.all_cols(),
                    .dtype = parameter.dtype,
                    .present = true,
                    .matrices = parameter.matrices};
  }
  for (size_t k = 0; k < node.outputs.size(); ++k) call.out[k] = shape(node.outputs[k]);
  return check_call(schema, call);
}

const char* check_parameter(const Parameter& parameter) {
  const bool vector = parameter.is_vector();
  if (parameter.role == program::NO_ROLE) return "a role";
  if (vector && parameter.rows.columns() != 1) return "one row";
  const int64_t wanted = vector ? parameter.all_cols() : parameter.all_rows();
  if (parameter.paired && (wanted % 2 != 0 || parameter.matrices > 1)) return "pairs of one matrix";
  int64_t filled = 0;
  for (const program::Piece& piece : parameter.pieces) {
    int64_t rows = piece.row_end() - piece.row_begin();
    int64_t cols = piece.col_end() - piece.col_begin();
    if (rows < 0 || cols < 0 || piece.row_begin() < 0 || piece.col_begin() < 0)
      return "pieces with ascending rows and columns";
    if (piece.transpose()) std::swap(rows, cols);
    filled += vector ? cols : rows;
    if (!vector && cols != parameter.cols.columns()) return "pieces as wide as itself";
  }
  return filled == wanted ? nullptr : "pieces that add up";
}

}  // namespace

absl::Status check_graph(const Graph& graph) {
  std::vector<bool> made(graph.values().size());
  for (const Node& node : graph.nodes()) {
    std::string problem = check_operands(graph, node, made);
    if (problem.empty()) problem = check_rows(graph, node);
    if (problem.empty()) problem = check_node(graph, node);
    if (!problem.empty()) {
      return absl::InternalError(fmt::format("{}: {}", node_text(graph, node), problem));
    }
  }
  for (const Parameter& parameter : graph.parameters()) {
    if (const char* problem = check_parameter(parameter); problem != nullptr) {
      return absl::InternalError(fmt::format("{}: must have {}", parameter.name, problem));
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep
