// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "operators/schema.h"

namespace lockstep {

std::string operators_page() {
  std::string page =
      "# Operators\n\nWritten from operators/schema.cc; `LOCKSTEP_REWRITE=1 "
      "build/cpu/tests/operators_test` rewrites it.\nOptional operands are in parentheses. "
      "\"in place\": the first output may lie where an input lies.\n\n"
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
            schema.formula + " | " + (schema.in_place ? "in place" : "") + " |\n";
  }
  return page;
}

}  // namespace lockstep
