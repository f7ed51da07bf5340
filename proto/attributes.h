// SPDX-License-Identifier: Apache-2.0
// Attributes of an operator between their message and the struct that checks and kernels read.
#pragma once

#include <string>

#include "operators/attributes.h"
#include "proto/program.pb.h"

namespace lockstep {

inline AttrsKind attrs_kind(const program::Attributes& attributes) {
  return static_cast<AttrsKind>(attributes.kind_case());
}

// Lists point into `attributes`, which must stay where it is. Ranges are not checked.
OperatorAttrs bind_attributes(const program::Attributes& attributes);
// The other way round.
program::Attributes to_message(const OperatorAttrs& attrs);

// "heads 4 kv_heads 2 ..."; "" where there are none. Long lists are shortened if `brief`.
std::string attributes_text(const program::Attributes& attributes, bool brief = false);

}  // namespace lockstep
