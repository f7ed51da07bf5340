// SPDX-License-Identifier: Apache-2.0
// The listing of a Program. Indices out of range are printed as they are: people read programs that
// validate() refuses.
#include "proto/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/numbers/dtype.h"
#include "operators/op.h"
#include "proto/attributes.h"

namespace lockstep {
namespace {

using program::Program;

const char* short_name(program::DType dtype) { return dtype_short_name(static_cast<DType>(dtype)); }

std::string print_header(const Program& program) {
  const program::Limits& limits = program.limits();
  return fmt::format(
      "program version {} model {} rank {} of {} strategy {} numbers {}\n"
      "limits rows {} outputs {} sequences {} context {} page_tokens {}\n"
      "vocab {} hidden {} arena_bytes {} shared_bytes {}\n",
      program.version(), program.model(), program.rank(), program.ranks(), program.strategy(),
      program.numeric_class(), limits.rows(), limits.outputs(), limits.sequences(),
      limits.context(), limits.page_tokens(), program.vocab(), program.hidden(),
      program.arena_bytes(), program.shared_bytes());
}

std::string print_piece(const program::Piece& piece) {
  const std::string plus = piece.plus() == 0 ? "" : fmt::format("{:g} + ", piece.plus());
  return fmt::format("{}{}[{}:{}, {}:{}]{} of [{}]", plus, piece.source(), piece.row_begin(),
                     piece.row_end(), piece.col_begin(), piece.col_end(),
                     piece.transpose() ? "^T"
                     : piece.flat()    ? " flat"
                                       : "",
                     fmt::join(piece.source_shape(), ", "));
}

// If a weight has more pieces (that of experts), only the first two and the last are shown.
constexpr int kMaxPieces = 16;

std::string print_weight(const Program& program, int index) {
  const program::Weight& weight = program.weights(index);
  std::string text = fmt::format("  w{} {} {} {} [{}, {}]", index, weight.name(),
                                 program::Role_Name(weight.role()), short_name(weight.dtype()),
                                 weight.rows(), weight.cols());
  if (weight.matrices() > 1) text += fmt::format(" in {} matrices", weight.matrices());
  if (weight.paired()) text += " in pairs";
  const int count = weight.pieces_size(), hidden = count > kMaxPieces ? count - 3 : 0;
  const char* separator = " = ";
  for (int i = 0; i < count; i += i == 1 ? 1 + hidden : 1) {
    text += separator + print_piece(weight.pieces(i));
    separator = " + ";
    if (i == 1 && hidden > 0) text += fmt::format(" + {} more", hidden);
  }
  return text + "\n";
}

std::string print_operand(const Program& program, const program::Operand& operand) {
  switch (operand.kind_case()) {
    case program::Operand::kValue: {
      const int index = operand.value();
      if (index < 0 || index >= program.values_size()) return fmt::format("%{}?", index);
      return fmt::format("%{} {}", index, program.values(index).name());
    }
    case program::Operand::kWeight: {
      const int index = operand.weight();
      if (index < 0 || index >= program.weights_size()) return fmt::format("w{}?", index);
      return fmt::format("w{} {}", index, program.weights(index).name());
    }
    case program::Operand::KIND_NOT_SET:
      break;
  }
  return "?";
}

std::string print_output(const Program& program, int index) {
  if (index < 0 || index >= program.values_size()) return fmt::format("%{}?", index);
  const program::Value& value = program.values(index);
  const bool known = 0 <= value.rows() && value.rows() < program.row_domains_size();
  const std::string rows =
      known ? program.row_domains(value.rows()).name() : fmt::format("domain {}?", value.rows());
  std::string stride;
  if (value.stride() != value.cols()) stride = fmt::format(" stride {}", value.stride());
  return fmt::format("%{} {}: {} [{}, {}]{} {}@{}", index, value.name(), short_name(value.dtype()),
                     rows, value.cols(), stride, value.shared() ? "shared" : "",
                     value.offset_bytes());
}

std::string print_instruction(const Program& program, int index) {
  const program::Instruction& instruction = program.instructions(index);
  std::string text = fmt::format("  {:>4} ", index);
  const char* separator = "";
  for (const int output : instruction.outputs()) {
    text += separator + print_output(program, output);
    separator = ", ";
  }
  const int op = instruction.op();
  text += instruction.outputs_size() == 0 ? "" : " = ";
  text += op >= 0 && op < kOpCount ? std::string(op_name(static_cast<Op>(op)))
                                   : fmt::format("op {}?", op);
  text += "(";
  separator = "";
  for (const program::Operand& operand : instruction.inputs()) {
    text += separator + print_operand(program, operand);
    separator = ", ";
  }
  text += ")";
  const std::string attributes = attributes_text(instruction.attributes());
  return text + (attributes.empty() ? "" : " {" + attributes + "}") + "\n";
}

}  // namespace

std::string to_text(const Program& program) {
  std::string text = print_header(program);
  text += fmt::format("weights {}\n", program.weights_size());
  for (int i = 0; i < program.weights_size(); ++i) text += print_weight(program, i);
  text += fmt::format("states {}\n", program.states_size());
  for (int i = 0; i < program.states_size(); ++i) {
    const program::State& state = program.states(i);
    if (state.has_block()) {
      text += fmt::format("  s{} {} {} block [{}, {}]\n", i, state.name(),
                          short_name(state.dtype()), state.block().rows(), state.block().cols());
      continue;
    }
    text += fmt::format("  s{} {} {} kv_heads {} k_dim {} v_dim {}\n", i, state.name(),
                        short_name(state.dtype()), state.kv().kv_heads(), state.kv().k_dim(),
                        state.kv().v_dim());
  }
  text += fmt::format("instructions {}\n", program.instructions_size());
  for (int i = 0; i < program.instructions_size(); ++i) text += print_instruction(program, i);
  return text;
}

}  // namespace lockstep
