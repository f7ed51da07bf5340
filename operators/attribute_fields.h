// SPDX-License-Identifier: Apache-2.0
// The fields of attributes one by one, for checks, printers and binding. Kernels do not use this.
#pragma once

#include "operators/attributes.h"

namespace lockstep {

// One field of one kind of attributes.
struct AttrsField {
  const char* name;
  double min;
  double max;
  bool option;  // Declared as LOCKSTEP_OPTION or LOCKSTEP_LIST.
  const char* meaning;
};

// visit(AttrsField, member) for every field, in the order of operators/attributes.inc.
#define LOCKSTEP_ATTRS(number, kind, word) \
  template <typename Visit>                \
  void visit_fields(kind##Attrs& attrs, const Visit& visit) {
#define LOCKSTEP_FIELD(type, name, min, max, meaning) \
  visit(AttrsField{#name, min, max, false, meaning}, attrs.name);
#define LOCKSTEP_OPTION(type, name, min, max, meaning) \
  visit(AttrsField{#name, min, max, true, meaning}, attrs.name);
#define LOCKSTEP_LIST LOCKSTEP_OPTION
#define LOCKSTEP_ATTRS_END }
#include "operators/attributes.inc"

// Calls visit(list) for every list that is not empty; visit may change the list. So the code that
// copies lists to a device needs no case per operator.
template <typename Visit>
void visit_lists(OperatorAttrs& attrs, const Visit& visit) {
  attrs.apply([&](auto& fields) {
    visit_fields(fields, [&](const AttrsField&, auto& field) {
      if constexpr (requires { field.data; }) {
        if (!field.empty()) visit(field);
      }
    });
  });
}

// The index of the operator's state; -1 if it has none.
inline int state_of(OperatorAttrs attrs) {
  int state = -1;
  attrs.apply([&](const auto& fields) {
    if constexpr (requires { fields.state; }) state = fields.state;
  });
  return state;
}

}  // namespace lockstep
