// SPDX-License-Identifier: Apache-2.0
// Checks a Program's instructions by the operators' rows (operators/schema/schema.h): operand
// look-up and count, row domains, single assignment, one writer of each state. check_call() does
// the rest.
#include <string>
#include <vector>

#include "base/status.h"
#include "operators/attribute_fields.h"
#include "operators/schema/schema.h"
#include "proto/attributes.h"
#include "proto/validate/validate.h"
#include "proto/validate/validate_parts.h"

namespace lockstep {
namespace {

using program::Instruction;
using program::Program;

const char* kind_name(OperandKind kind) {
  switch (kind) {
    case OperandKind::kNone:
      return "nothing";
    case OperandKind::kValue:
      return "a value";
    case OperandKind::kIds:
      return "a value of ids";
    case OperandKind::kEmbedding:
      return "an embedding";
    case OperandKind::kMatrix:
      return "a linear weight";
    case OperandKind::kNorm:
      return "a norm weight";
    case OperandKind::kBias:
      return "a bias";
  }
  return "?";
}

// The checks of one instruction, in order. Each take_...() also stores what it has checked in
// call_.
class InstructionCheck {
 public:
  InstructionCheck(const Program& program, const ProgramFacts& facts, int index)
      : program_(program),
        instruction_(program.instructions(index)),
        index_(index),
        schema_(schema_of(static_cast<Op>(instruction_.op()))) {
    call_.program = &facts;
  }

  absl::Status run(std::vector<bool>& written, std::vector<bool>& used);

 private:
  absl::Status fail(const std::string& what) const {
    return invalid_argument("program instruction {} ({}): {}", index_, op_name(schema_.op), what);
  }
  absl::Status expect_within(const char* name, int64_t found, int64_t min, int64_t max) const {
    Finding finding;
    return finding.within(name, found, min, max) ? absl::OkStatus() : fail(finding.text);
  }

  OperandShape shape_of(const program::Value& value) const;
  absl::Status take_inputs(const std::vector<bool>& written);
  absl::Status take_value(int i, const std::vector<bool>& written);
  absl::Status take_weight(int i);
  absl::Status take_outputs(std::vector<bool>& written);
  absl::Status check_rows() const;
  absl::Status take_state(std::vector<bool>& used);

  const Program& program_;
  const Instruction& instruction_;
  const int index_;
  const OperatorSchema& schema_;
  OperatorCall call_;
};

OperandShape InstructionCheck::shape_of(const program::Value& value) const {
  const program::RowDomain& rows = program_.row_domains(value.rows());
  return {.cols = value.cols(),
          .dtype = static_cast<DType>(value.dtype()),
          .present = true,
          .rows_each = rows.of() == program::TOKENS ? rows.rows_each() : 0};
}

absl::Status InstructionCheck::take_value(int i, const std::vector<bool>& written) {
  const int index = instruction_.inputs(i).value();
  RETURN_IF_ERROR(expect_within("input value", index, 0, program_.values_size() - 1));
  if (!written[index]) {
    return fail(fmt::format("input {}: value {} is read before it is written", i, index));
  }
  const program::Value& value = program_.values(index);
  call_.in[i] = shape_of(value);
  return absl::OkStatus();
}

absl::Status InstructionCheck::take_weight(int i) {
  const int index = instruction_.inputs(i).weight();
  RETURN_IF_ERROR(expect_within("input weight", index, 0, program_.weights_size() - 1));
  const program::Weight& weight = program_.weights(index);
  if (!role_fits(schema_.inputs[i].kind, weight.role())) {
    return fail(fmt::format("input {} must be {}, found {}", i, kind_name(schema_.inputs[i].kind),
                            program::Role_Name(weight.role())));
  }
  call_.in[i] = {.rows = weight.rows(),
                 .cols = weight.cols(),
                 .dtype = static_cast<DType>(weight.dtype()),
                 .present = true,
                 .matrices = matrices_of(weight)};
  return absl::OkStatus();
}

absl::Status InstructionCheck::take_inputs(const std::vector<bool>& written) {
  RETURN_IF_ERROR(expect_within("inputs count", instruction_.inputs_size(),
                                schema_.required_count(), schema_.input_count()));
  for (int i = 0; i < instruction_.inputs_size(); ++i) {
    const bool wants_value = is_value(schema_.inputs[i].kind);
    const program::Operand& operand = instruction_.inputs(i);
    if (operand.has_value() && wants_value) {
      RETURN_IF_ERROR(take_value(i, written));
    } else if (operand.has_weight() && !wants_value) {
      RETURN_IF_ERROR(take_weight(i));
    } else {
      return fail(fmt::format("input {} must be {}, found {}", i, kind_name(schema_.inputs[i].kind),
                              operand.has_value()    ? "a value"
                              : operand.has_weight() ? "a weight"
                                                     : "nothing"));
    }
  }
  return absl::OkStatus();
}

absl::Status InstructionCheck::take_outputs(std::vector<bool>& written) {
  Finding finding;
  if (!finding.equal("outputs count", instruction_.outputs_size(), schema_.output_count())) {
    return fail(finding.text);
  }
  for (int i = 0; i < instruction_.outputs_size(); ++i) {
    const int output = instruction_.outputs(i);
    RETURN_IF_ERROR(expect_within("output value", output, 0, program_.values_size() - 1));
    if (written[output]) return fail(fmt::format("value {} is written a second time", output));
    written[output] = true;
    const program::Value& value = program_.values(output);
    call_.out[i] = shape_of(value);
  }
  return absl::OkStatus();
}

absl::Status InstructionCheck::check_rows() const {
  std::vector<int> in, out;
  for (const program::Operand& operand : instruction_.inputs()) {
    if (operand.has_value()) in.push_back(program_.values(operand.value()).rows());
  }
  for (const int output : instruction_.outputs()) out.push_back(program_.values(output).rows());
  const std::string problem = check_row_rule(schema_, in, out);
  return problem.empty() ? absl::OkStatus() : fail(problem);
}

// One instruction writes a state; attention that only reads it must come later.
absl::Status InstructionCheck::take_state(std::vector<bool>& used) {
  if (schema_.state == StateKind::kNone) return absl::OkStatus();
  const int index = state_of(call_.attrs);
  RETURN_IF_ERROR(expect_within("state", index, 0, program_.states_size() - 1));
  const program::State& state = program_.states(index);
  const bool reads_only = instruction_.attributes().attention().read_only();
  if (reads_only && !used[index]) {
    return fail(fmt::format("state {} is read before it is written", index));
  }
  if (used[index] && !reads_only) {
    return fail(fmt::format("state {} is written a second time", index));
  }
  used[index] = true;
  if (state.has_block() != (schema_.state == StateKind::kBlock)) {
    return fail(
        fmt::format("state {} must be {}", index,
                    state.has_block() ? "KV pages, found a block" : "a block, found KV pages"));
  }
  call_.kv = {
      .kv_heads = state.kv().kv_heads(), .k_dim = state.kv().k_dim(), .v_dim = state.kv().v_dim()};
  call_.block = {.rows = state.block().rows(), .cols = state.block().cols()};
  return absl::OkStatus();
}

absl::Status InstructionCheck::run(std::vector<bool>& written, std::vector<bool>& used) {
  // Op has 8 bits: the cast of a wrong number could give a valid Op. So the number is checked.
  if (!program::Op_IsValid(instruction_.op()) || schema_.op == Op::kNone) {
    return invalid_argument("program instruction {}: op must be a known operator, found {}", index_,
                            static_cast<int>(instruction_.op()));
  }
  RETURN_IF_ERROR(take_inputs(written));
  RETURN_IF_ERROR(take_outputs(written));
  if (attrs_kind(instruction_.attributes()) != schema_.attrs) {
    return fail("attributes must be those of the operator, found others or none");
  }
  call_.attrs = bind_attributes(instruction_.attributes());
  RETURN_IF_ERROR(take_state(used));
  const std::string problem = check_call(schema_, call_);
  return problem.empty() ? check_rows() : fail(problem);
}

}  // namespace

bool role_fits(OperandKind kind, program::Role role) {
  switch (kind) {
    case OperandKind::kEmbedding:
      return role == program::EMBEDDING || role == program::POSITIONS;
    case OperandKind::kMatrix:
      return role == program::LINEAR_WEIGHT || role == program::HEAD_WEIGHT ||
             role == program::ROUTER;
    case OperandKind::kNorm:
      return role == program::NORM;
    case OperandKind::kBias:
      return role == program::BIAS;
    case OperandKind::kNone:
    case OperandKind::kValue:
    case OperandKind::kIds:
      return false;
  }
  return false;
}

absl::Status check_instructions(const Program& program) {
  const ProgramFacts facts = {.vocab = program.vocab(),
                              .hidden = program.hidden(),
                              .context = program.limits().context(),
                              .rank = program.rank(),
                              .ranks = program.ranks(),
                              .state_count = program.states_size()};
  std::vector<bool> written(program.values_size(), false);
  std::vector<bool> used(program.states_size(), false);
  int heads_found = 0;
  for (int i = 0; i < program.instructions_size(); ++i) {
    RETURN_IF_ERROR(InstructionCheck(program, facts, i).run(written, used));
    if (program.instructions(i).op() == program::TOP_CANDIDATES) ++heads_found;
  }
  if (heads_found == 1) return absl::OkStatus();
  return invalid_argument("program: must have one top_candidates instruction, found {}",
                          heads_found);
}

}  // namespace lockstep
