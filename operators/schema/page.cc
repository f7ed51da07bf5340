// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>
#include <type_traits>

#include "operators/attribute_fields.h"
#include "operators/schema/schema.h"

namespace lockstep {
namespace {

// The kind's name in program.Attributes; "" for an operator without attributes.
std::string word_of(AttrsKind kind) {
  switch (kind) {
    case AttrsKind::kNone:
      break;
#define LOCKSTEP_ATTRS(number, kind, word) \
  case AttrsKind::k##kind:                 \
    return #word;
#include "operators/attributes.inc"
  }
  return "";
}

// The text in a cell of a table, where a bar would begin the next cell: |x| becomes \|x\|.
std::string in_cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c;
  }
  return cell;
}

// The allowed values as text: "0 to 1024"; "any number" for floats without bounds.
template <typename T>
std::string range_of(const AttrsField& field, const T& value) {
  if constexpr (requires { value.data; }) {
    return "list: " + range_of(field, typename T::Element{});
  } else if constexpr (std::is_same_v<T, bool>) {
    return "flag";
  } else {
    const auto text = [](double bound) { return std::to_string(static_cast<int64_t>(bound)); };
    if (field.min <= -kMaxFloat) return "any number";
    return field.max >= kMaxFloat ? text(field.min) + " or more"
                                  : text(field.min) + " to " + text(field.max);
  }
}

std::string attributes_table() {
  std::string table = "| attributes | field | values | meaning |\n| --- | --- | --- | --- |\n";
  const auto add = [&](AttrsKind kind) {
    std::string word = "`" + word_of(kind) + "`";
    OperatorAttrs(kind).apply([&](auto& fields) {
      visit_fields(fields, [&](const AttrsField& field, const auto& value) {
        table += "| " + word + " | " + field.name + " | " + range_of(field, value) + " | " +
                 in_cell(field.meaning) + " |\n";
        word = "";
      });
    });
  };
#define LOCKSTEP_ATTRS(number, kind, word) add(AttrsKind::k##kind);
#include "operators/attributes.inc"
  return table;
}

std::string notes_of(const OperatorSchema& schema) {
  const std::string in_place = schema.in_place ? "in place" : "";
  if (!schema.may_round()) return in_place;
  return in_place + (schema.in_place ? ", " : "") + "may round";
}

}  // namespace

std::string operators_page() {
  std::string page =
      "# Operators\n\nWritten from operators/schema/schema.cc and operators/attributes.inc; "
      "`LOCKSTEP_REWRITE=1\nbuild/cpu/tests/operators_test` rewrites it.\nOptional operands are in "
      "parentheses. "
      "\"in place\": the first output may use an input's memory.\n"
      "\"may round\": on GPUs the last output may be bfloat16.\n\n"
      "| operator | in | out | attributes | computes | |\n| --- | --- | --- | --- | --- | --- |\n";
  for (int i = 1; i < kOpCount; ++i) {
    const OperatorSchema& schema = schema_of(static_cast<Op>(i));
    std::string in, out;
    for (const OperandSchema& operand : schema.inputs) {
      if (operand.kind == OperandKind::kNone) break;
      const std::string name = operand.name;
      in += (in.empty() ? "" : ", ") + (operand.optional ? "(" + name + ")" : name);
    }
    for (int k = 0; k < schema.output_count(); ++k) {
      out += (out.empty() ? "" : ", ") + std::string(schema.outputs[static_cast<size_t>(k)]);
    }
    page += "| `" + std::string(op_name(schema.op)) + "` | " + in + " | " + out + " | " +
            word_of(schema.attrs) + " | " + in_cell(schema.formula) + " | " + notes_of(schema) +
            " |\n";
  }
  return page + "\n" + attributes_table();
}

}  // namespace lockstep
