// SPDX-License-Identifier: Apache-2.0
// Maps one to one: values to values, parameters to weights, nodes to instructions.
#include "sharding/lowering/lower.h"

#include <map>

#include "base/check.h"
#include "operators/schema/schema.h"
#include "proto/validate/validate.h"

namespace lockstep {
namespace {

program::DType to_proto(DType dtype) { return static_cast<program::DType>(dtype); }

void lower_values(const Graph& graph, const MemoryPlan& memory, program::Program& program) {
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const ValueInfo& info = graph.values()[i];
    program::Value& value = *program.add_values();
    value.set_name(info.name);
    value.set_dtype(to_proto(info.dtype));
    value.set_rows(info.rows);
    value.set_cols(info.axis.columns());
    value.set_stride(memory.placements[i].stride);
    value.set_offset_bytes(memory.placements[i].offset_bytes);
    value.set_shared(memory.placements[i].shared);
  }
}

void lower_weights(const Graph& graph, program::Program& program) {
  for (const Parameter& parameter : graph.parameters()) {
    program::Weight& weight = *program.add_weights();
    weight.set_name(parameter.name);
    weight.set_role(parameter.role);
    weight.set_dtype(to_proto(parameter.dtype));
    weight.set_rows(parameter.all_rows());
    weight.set_cols(parameter.all_cols());
    if (parameter.matrices > 1) weight.set_matrices(parameter.matrices);
    weight.set_paired(parameter.paired);
    for (const program::Piece& piece : parameter.pieces) *weight.add_pieces() = piece;
  }
}

// The state of a layer. The layer's own attention makes it; a later layer's attention that only
// reads it (read_only) finds it by name.
int state_of(const program::AttentionAttrs& attention, DType dtype, program::Program& program) {
  const std::string name = "layer." + std::to_string(attention.state());
  for (int i = 0; i < program.states_size() && attention.read_only(); ++i) {
    if (program.states(i).has_kv() && program.states(i).name() == name) return i;
  }
  LOCKSTEP_CHECK(!attention.read_only());
  program::State& state = *program.add_states();
  state.set_name(name);
  state.set_dtype(to_proto(dtype));
  program::KvPages& kv = *state.mutable_kv();
  kv.set_kv_heads(attention.kv_heads());
  kv.set_k_dim(attention.head_dim());
  const int64_t v_dim = attention.v_dim() == 0 ? attention.head_dim() : attention.v_dim();
  kv.set_v_dim(attention.values_in_keys() ? 0 : v_dim);
  return program.states_size() - 1;
}

// A state block for an operator, named after its output.
int block_of(const std::string& name, int64_t rows, int64_t cols, program::Program& program) {
  program::State& state = *program.add_states();
  state.set_name(name);
  state.set_dtype(program::F32);
  state.mutable_block()->set_rows(rows);
  state.mutable_block()->set_cols(cols);
  return program.states_size() - 1;
}

// If the operator has a state, sets its index in the attributes.
void lower_state(const Graph& graph, const Node& node, DType kv_dtype,
                 program::Attributes& attributes, program::Program& program) {
  if (schema_of(node.op).state == StateKind::kNone) return;
  if (attributes.has_attention()) {
    attributes.mutable_attention()->set_state(state_of(attributes.attention(), kv_dtype, program));
    return;
  }
  const ValueInfo& made = graph.values()[node.outputs[0]];
  if (attributes.has_conv()) {
    program::ConvAttrs& conv = *attributes.mutable_conv();
    conv.set_state(block_of(made.name, conv.taps() - 1, made.axis.columns(), program));
  } else if (attributes.has_block()) {
    const int64_t rows = node.op == Op::kWkv ? kWkvRows : 1;
    attributes.mutable_block()->set_state(block_of(made.name, rows, made.axis.columns(), program));
  } else {
    LOCKSTEP_CHECK(attributes.has_recurrence());
    program::RecurrenceAttrs& recurrence = *attributes.mutable_recurrence();
    const int64_t rows = recurrence.heads() * recurrence.k_dim();
    recurrence.set_state(block_of(made.name, rows, recurrence.v_dim(), program));
  }
}

}  // namespace

program::Program lower(const Graph& graph, const MemoryPlan& memory, const CompileOptions& options,
                       const LowerArgs& args) {
  program::Program program;
  program.set_version(kProgramVersion);
  program.set_model(graph.model);
  program.set_numeric_class(args.numeric_class);
  program.set_rank(args.rank);
  program.set_ranks(args.ranks);
  program.set_strategy(strategy_name(options.strategy));
  *program.mutable_limits() = options.limits;
  program.set_vocab(args.vocab);
  program.set_hidden(args.hidden);
  program.set_arena_bytes(memory.arena_bytes);
  program.set_shared_bytes(memory.shared_bytes);
  for (const program::RowDomain& domain : graph.row_domains) *program.add_row_domains() = domain;
  *program.mutable_sequence_rules() = graph.sequence_rules;
  lower_values(graph, memory, program);
  lower_weights(graph, program);
  for (const Node& node : graph.nodes()) {
    program::Instruction& instruction = *program.add_instructions();
    instruction.set_op(static_cast<program::Op>(node.op));
    for (int input : node.inputs) instruction.add_inputs()->set_value(input);
    for (int parameter : node.parameters) instruction.add_inputs()->set_weight(parameter);
    for (int output : node.outputs) instruction.add_outputs(output);
    if (node.attributes.kind_case() == program::Attributes::KIND_NOT_SET) continue;
    *instruction.mutable_attributes() = node.attributes;
    lower_state(graph, node, options.kv_dtype, *instruction.mutable_attributes(), program);
  }
  return program;
}

}  // namespace lockstep
