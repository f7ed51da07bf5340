// SPDX-License-Identifier: Apache-2.0
// Converts an operator's attributes: message <-> the struct that checks and kernels read.
#pragma once

#include <string>

#include "operators/attributes.h"
#include "proto/program.pb.h"

namespace lockstep {

inline AttrsKind attrs_kind(const program::Attributes& attributes) {
  return static_cast<AttrsKind>(attributes.kind_case());
}

// Lists point into `attributes`, which must not move. Ranges are not checked.
OperatorAttrs bind_attributes(const program::Attributes& attributes);
// The reverse of bind_attributes().
program::Attributes to_message(const OperatorAttrs& attrs);

// "heads 4 kv_heads 2 ..."; "" if there are none. `brief` shortens long lists.
std::string attributes_text(const program::Attributes& attributes, bool brief = false);

}  // namespace lockstep
