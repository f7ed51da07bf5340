// SPDX-License-Identifier: Apache-2.0
// The building blocks of schema.cc's rows, and a check of them. For schema.cc alone.
#pragma once

#include <span>

#include "operators/schema/schema.h"

namespace lockstep::schema_parts {

constexpr OperandSchema value(const char* name) { return {name, OperandKind::kValue}; }
constexpr OperandSchema optional_value(const char* name) {
  return {name, OperandKind::kValue, true};
}
constexpr OperandSchema ids(const char* name) { return {name, OperandKind::kIds}; }
constexpr OperandSchema embedding(const char* name) { return {name, OperandKind::kEmbedding}; }
constexpr OperandSchema matrix(const char* name) { return {name, OperandKind::kMatrix}; }
constexpr OperandSchema norm(const char* name) { return {name, OperandKind::kNorm}; }
constexpr OperandSchema optional_norm(const char* name) { return {name, OperandKind::kNorm, true}; }
constexpr OperandSchema optional_bias(const char* name) { return {name, OperandKind::kBias, true}; }

// Whether every row is consistent: no gaps between operands, no optional operand before a required
// one, no weight before a value or after an optional value.
constexpr bool rows_are_sound(std::span<const OperatorSchema> schemas) {
  for (const OperatorSchema& schema : schemas) {
    bool ended = false, optional = false, weights = false, optional_values = false;
    for (const OperandSchema& operand : schema.inputs) {
      const bool none = operand.kind == OperandKind::kNone;
      const bool values = is_value(operand.kind);
      if (!none && (ended || (optional && !operand.optional) || (weights && values) ||
                    (optional_values && !values))) {
        return false;
      }
      ended = ended || none;
      optional = optional || operand.optional;
      optional_values = optional_values || (values && operand.optional);
      weights = weights || (!none && !values);
    }
    if (schema.columns != ColumnRule::kOwn && schema.inputs[0].kind != OperandKind::kValue) {
      return false;
    }
  }
  return true;
}

}  // namespace lockstep::schema_parts
