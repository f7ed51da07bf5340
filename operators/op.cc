// SPDX-License-Identifier: Apache-2.0
#include "operators/op.h"

#include "operators/schema.h"

namespace lockstep {

std::string_view op_name(Op op) {
  if (op == Op::kNone) return "none";
  const char* name = schema_of(op).name;
  return name == nullptr ? "?" : name;
}

std::optional<Op> find_op(std::string_view name) {
  for (int i = 0; i < kOpCount; ++i) {
    if (op_name(static_cast<Op>(i)) == name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

}  // namespace lockstep
