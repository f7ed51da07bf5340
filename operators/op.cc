// SPDX-License-Identifier: Apache-2.0
#include "operators/op.h"

namespace lockstep {

std::string_view op_name(Op op) {
  switch (op) {
#define LOCKSTEP_OP(number, constant, message, word) \
  case Op::constant:                                 \
    return #word;
#include "operators/ops.inc"
  }
  return "?";
}

std::optional<Op> find_op(std::string_view name) {
  for (int i = 0; i < kOpCount; ++i) {
    if (op_name(static_cast<Op>(i)) == name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

}  // namespace lockstep
