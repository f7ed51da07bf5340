// SPDX-License-Identifier: Apache-2.0
#include "tools/inspect/program_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/numbers/dtype.h"
#include "base/numbers/quantization.h"
#include "operators/attribute_fields.h"
#include "operators/schema/schema.h"
#include "proto/attributes.h"
#include "tools/inspect/layer_groups.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
using program::Program;

const char* dtype_text(program::DType dtype) { return dtype_short_name(static_cast<DType>(dtype)); }

std::string layout_text(const ValueParts& parts, const program::Value& value) {
  const auto found = parts.find(value.name());
  if (found == parts.end()) return "several values side by side";
  const ValuePart& part = found->second;
  if (part.layout.kind == LayoutKind::kPartial) return "partial: one addend per rank";
  if (part.layout.kind == LayoutKind::kWhole) return "whole";
  const std::string axis = axis_name(part.layout.axis);
  if (value.cols() == 0) return fmt::format("split over {}: none of {}", axis, part.all_columns);
  return fmt::format("split over {}: {}-{} of {}", axis, part.columns.begin, part.columns.end - 1,
                     part.all_columns);
}

// [name, type, row domain, columns, layout, memory]
Json values_json(const InspectedProgram& inspected) {
  Json values = Json::array();
  for (const program::Value& value : inspected.program->values()) {
    std::string memory =
        fmt::format("{} {}", value.shared() ? "shared at" : "at", value.offset_bytes());
    if (value.stride() != value.cols()) memory += fmt::format(", rows {} apart", value.stride());
    values.push_back({value.name(), dtype_text(value.dtype()),
                      inspected.program->row_domains(value.rows()).name(), value.cols(),
                      layout_text(*inspected.parts, value), std::move(memory)});
  }
  return values;
}

std::string changes_text(const program::Piece& piece) {
  std::string text;
  const auto add = [&text](const std::string& change) {
    text += (text.empty() ? "" : ", ") + change;
  };
  if (piece.transpose()) add("transposed");
  if (piece.plus() != 0) add(fmt::format("plus {:g}", piece.plus()));
  if (piece.interleaved() > 0)
    add(fmt::format("{} kinds of columns separated", piece.interleaved()));
  if (piece.unit_rows()) add("rows normalized to length 1");
  if (piece.flat()) add("as one row");
  return text;
}

// A name, split at one of its numbers: "experts.", 3 and ".up_proj". -1: there is no number.
struct Counted {
  std::string_view before, after;
  int64_t number = -1;
};

Counted count_at(std::string_view name, size_t begin) {
  size_t end = begin;
  int64_t number = 0;
  for (; end < name.size() && name[end] >= '0' && name[end] <= '9' && end - begin < 9; ++end) {
    number = number * 10 + (name[end] - '0');
  }
  return {name.substr(0, begin), name.substr(end), end == begin ? -1 : number};
}

// The numbers in a name with their places, the last one first.
std::vector<Counted> numbers_of(std::string_view name) {
  std::vector<Counted> numbers;
  for (size_t i = name.size(); i-- > 0;) {
    const bool digit = name[i] >= '0' && name[i] <= '9';
    const bool begins = i == 0 || name[i - 1] < '0' || name[i - 1] > '9';
    if (digit && begins) numbers.push_back(count_at(name, i));
  }
  return numbers;
}

bool same_rectangle(program::Piece a, const program::Piece& b) {
  a.set_source(b.source());
  return a.SerializeAsString() == b.SerializeAsString();
}

// Returns how many pieces from `first` on are the same rectangle of tensors whose names differ only
// in one ascending number (such as experts). If more than one, `counted` is set to that number.
int run_of(const program::Weight& weight, int first, Counted& counted) {
  const program::Piece& begin = weight.pieces(first);
  for (const Counted& place : numbers_of(begin.source())) {
    int count = 1;
    for (; first + count < weight.pieces_size(); ++count) {
      const program::Piece& next = weight.pieces(first + count);
      const std::string wanted =
          fmt::format("{}{}{}", place.before, place.number + count, place.after);
      if (next.source() != wanted || !same_rectangle(begin, next)) break;
    }
    if (count > 1) {
      counted = place;
      return count;
    }
  }
  return 1;
}

// [tensor, its shape, first row, end, first column, end, how its elements are changed
// ("transposed", "plus 1", ...), how many numbered tensors this entry stands for]
Json pieces_json(const program::Weight& weight) {
  Json pieces = Json::array();
  for (int i = 0; i < weight.pieces_size();) {
    const program::Piece& piece = weight.pieces(i);
    Counted counted;
    const int count = run_of(weight, i, counted);
    const std::string source = count == 1
                                   ? piece.source()
                                   : fmt::format("{}{{{}-{}}}{}", counted.before, counted.number,
                                                 counted.number + count - 1, counted.after);
    Json shape = Json::array();
    for (const int64_t size : piece.source_shape()) shape.push_back(size);
    pieces.push_back({source, std::move(shape), piece.row_begin(), piece.row_end(),
                      piece.col_begin(), piece.col_end(), changes_text(piece), count});
    i += count;
  }
  return pieces;
}

// [name, role, type, rows, columns, matrices, bytes, pieces, whether rows of both halves alternate]
Json weights_json(const Program& program) {
  Json weights = Json::array();
  for (const program::Weight& weight : program.weights()) {
    const auto dtype = static_cast<DType>(weight.dtype());
    weights.push_back({weight.name(), program::Role_Name(weight.role()), dtype_text(weight.dtype()),
                       weight.rows(), weight.cols(), std::max<int64_t>(1, weight.matrices()),
                       matrix_bytes(dtype, weight.rows(), weight.cols()), pieces_json(weight),
                       weight.paired()});
  }
  return weights;
}

std::string state_text(const Program& program, const program::Instruction& instruction) {
  const Op op = static_cast<Op>(instruction.op());
  if (schema_of(op).state == StateKind::kNone) return "";
  const program::State& state = program.states(state_of(bind_attributes(instruction.attributes())));
  if (state.has_block()) {
    return fmt::format("{}: a block of {} [{}, {}] for each sequence", state.name(),
                       dtype_text(state.dtype()), state.block().rows(), state.block().cols());
  }
  const std::string values =
      state.kv().v_dim() == 0 ? "values in them" : fmt::format("values of {}", state.kv().v_dim());
  return fmt::format("{}: pages of {}, {} KV heads, keys of {}, {}", state.name(),
                     dtype_text(state.dtype()), state.kv().kv_heads(), state.kv().k_dim(), values);
}

// [operator, values it makes, values it reads, weights it reads, attributes, state, costs by step]
Json instructions_json(const InspectedProgram& inspected) {
  const Program& program = *inspected.program;
  Json instructions = Json::array();
  for (int i = 0; i < program.instructions_size(); ++i) {
    const program::Instruction& instruction = program.instructions(i);
    Json made = Json::array(), read = Json::array(), weights = Json::array();
    for (const int output : instruction.outputs()) made.push_back(output);
    for (const program::Operand& operand : instruction.inputs()) {
      (operand.has_weight() ? weights : read)
          .push_back(operand.has_weight() ? operand.weight() : operand.value());
    }
    Json costs = Json::array();
    for (const PricedStep& step : inspected.steps) {
      const KernelCost& cost = step.costs[static_cast<size_t>(i)];
      costs.push_back({cost.bytes, cost.flops});
    }
    instructions.push_back({op_name(static_cast<Op>(instruction.op())), std::move(made),
                            std::move(read), std::move(weights),
                            attributes_text(instruction.attributes(), true),
                            state_text(program, instruction), std::move(costs)});
  }
  return instructions;
}

// The formulas of the operators in the program.
Json formulas_json(const Program& program) {
  Json formulas = Json::object();
  for (const program::Instruction& instruction : program.instructions()) {
    const Op op = static_cast<Op>(instruction.op());
    formulas[std::string(op_name(op))] = schema_of(op).formula;
  }
  return formulas;
}

Json totals_json(const PlanRow& totals) {
  return {{"weights", totals.weight_bytes},
          {"kv", totals.kv_bytes_per_token},
          {"block", totals.block_bytes},
          {"arena", totals.arena_bytes},
          {"gathers", totals.gathers},
          {"reduces", totals.reduces},
          {"sent", totals.collective_bytes_per_token}};
}

}  // namespace

std::string program_json(const InspectedProgram& inspected) {
  const Program& program = *inspected.program;
  const program::Limits& limits = program.limits();
  Json json = {{"model", program.model()},
               {"rank", program.rank()},
               {"ranks", program.ranks()},
               {"strategy", program.strategy()},
               {"numbers", program.numeric_class()},
               {"limits",
                {{"rows", limits.rows()},
                 {"outputs", limits.outputs()},
                 {"sequences", limits.sequences()},
                 {"context", limits.context()}}},
               {"totals", totals_json(inspected.totals)}};
  json["steps"] = Json::array();
  for (const PricedStep& step : inspected.steps) json["steps"].push_back(step.name);
  json["groups"] = Json::array();
  for (const LayerGroup& group : layer_groups(program)) {
    json["groups"].push_back({group.name, group.first, group.end});
  }
  json["formulas"] = formulas_json(program);
  json["values"] = values_json(inspected);
  json["weights"] = weights_json(program);
  json["instructions"] = instructions_json(inspected);
  // Names come from files: "</script>" in one must not end the script element.
  std::string text;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace lockstep
