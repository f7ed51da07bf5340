// SPDX-License-Identifier: Apache-2.0
// The listing of a Program. Indices that are out of range print as such: a program that validate()
// refuses is one that people want to read.
#include "proto/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/dtype.h"
#include "base/op.h"

namespace lockstep {
namespace {

using program::Attributes;
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
  return fmt::format("{}[{}:{}, {}:{}]{} of [{}]", piece.source(), piece.row_begin(),
                     piece.row_end(), piece.col_begin(), piece.col_end(),
                     piece.transpose() ? "^T" : "", fmt::join(piece.source_shape(), ", "));
}

std::string print_weight(const Program& program, int index) {
  const program::Weight& weight = program.weights(index);
  std::string text = fmt::format("  w{} {} {} {} [{}, {}]", index, weight.name(),
                                 program::Role_Name(weight.role()), short_name(weight.dtype()),
                                 weight.rows(), weight.cols());
  const char* separator = " = ";
  for (const program::Piece& piece : weight.pieces()) {
    text += separator + print_piece(piece);
    separator = " + ";
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
  const char* rows = value.rows() == program::TOKENS ? "tokens" : "outputs";
  std::string stride;
  if (value.stride() != value.cols()) stride = fmt::format(" stride {}", value.stride());
  return fmt::format("%{} {}: {} [{}, {}]{} {}@{}", index, value.name(), short_name(value.dtype()),
                     rows, value.cols(), stride, value.shared() ? "shared" : "",
                     value.offset_bytes());
}

std::string print_rope_table(const program::RopeTableAttrs& attrs) {
  std::string text = fmt::format("inv_freq [{:.6g}] factor {:.6g}",
                                 fmt::join(attrs.inv_freq(), ", "), attrs.factor());
  if (attrs.dynamic_length() != 0) {
    text += fmt::format(" dynamic_length {} dynamic_factor {:.6g} theta {:.6g}",
                        attrs.dynamic_length(), attrs.dynamic_factor(), attrs.theta());
  }
  return text;
}

std::string print_attention(const program::AttentionAttrs& attrs) {
  std::string text =
      fmt::format("heads {} kv_heads {} head_dim {} scale {:.9g} state {}", attrs.heads(),
                  attrs.kv_heads(), attrs.head_dim(), attrs.scale(), attrs.state());
  if (attrs.window() != 0) text += fmt::format(" window {}", attrs.window());
  return text + fmt::format(" kv_head_of [{}]", fmt::join(attrs.kv_head_of(), ", "));
}

std::string print_attributes(const Attributes& attributes) {
  switch (attributes.kind_case()) {
    case Attributes::kEmbed:
      return fmt::format("vocab_begin {}", attributes.embed().vocab_begin());
    case Attributes::kNorm: {
      const program::NormAttrs& norm = attributes.norm();
      std::string text = fmt::format("eps {:.6g}", norm.eps());
      if (norm.head_dim() != 0) text += fmt::format(" head_dim {}", norm.head_dim());
      return text;
    }
    case Attributes::kRopeTable:
      return print_rope_table(attributes.rope_table());
    case Attributes::kRope:
      return fmt::format("head_dim {} rotary_dim {}{}", attributes.rope().head_dim(),
                         attributes.rope().rotary_dim(),
                         attributes.rope().interleaved() ? " interleaved" : "");
    case Attributes::kAttention:
      return print_attention(attributes.attention());
    case Attributes::kTopCandidates:
      return fmt::format("vocab_begin {}", attributes.top_candidates().vocab_begin());
    case Attributes::kGather:
      return fmt::format("boundaries [{}]", fmt::join(attributes.gather().boundaries(), ", "));
    case Attributes::kColumns:
      return fmt::format("{}:{}", attributes.columns().begin(), attributes.columns().end());
    case Attributes::KIND_NOT_SET:
      break;
  }
  return "";
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
  const std::string attributes = print_attributes(instruction.attributes());
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
    text += fmt::format("  s{} {} {} kv_heads {} head_dim {}\n", i, state.name(),
                        short_name(state.dtype()), state.kv_heads(), state.head_dim());
  }
  text += fmt::format("instructions {}\n", program.instructions_size());
  for (int i = 0; i < program.instructions_size(); ++i) text += print_instruction(program, i);
  return text;
}

}  // namespace lockstep
