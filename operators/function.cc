// SPDX-License-Identifier: Apache-2.0
#include "operators/function.h"

namespace lockstep {

std::string_view function_name(Function function) {
  switch (function) {
#define LOCKSTEP_FUNCTION(number, constant, message, word) \
  case Function::constant:                                 \
    return #word;
#include "operators/functions.inc"
  }
  return "?";
}

}  // namespace lockstep
