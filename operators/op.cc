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

}  // namespace lockstep
