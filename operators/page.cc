// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "operators/schema.h"

namespace lockstep {
namespace {

std::string notes_of(const OperatorSchema& schema) {
  const std::string in_place = schema.in_place ? "in place" : "";
  if (!schema.may_round()) return in_place;
  return in_place + (schema.in_place ? ", " : "") + "may round";
}

}  // namespace

std::string operators_page() {
  std::string page =
      "# Operators\n\nWritten from operators/schema.cc; `LOCKSTEP_REWRITE=1 "
      "build/cpu/tests/operators_test` rewrites it.\nOptional operands are in parentheses. "
      "\"in place\": the first output may lie where an input lies.\n"
      "\"may round\": on GPUs the last output may be bfloat16.\n\n"
      "| operator | in | out | computes | |\n| --- | --- | --- | --- | --- |\n";
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
            schema.formula + " | " + notes_of(schema) + " |\n";
  }
  return page;
}

}  // namespace lockstep
