// SPDX-License-Identifier: Apache-2.0
// Every operator, with one name from a model's builder to its kernel: ops.inc is the list. An
// operator is the work of one hand-written kernel. schema/schema.cc has the inputs, outputs and
// formula of each operator, and docs/operators.md is a table of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep {

enum class Op : uint8_t {
#define LOCKSTEP_OP(number, constant, message, word) constant = number,
#include "operators/ops.inc"
};

inline constexpr int kOpCount = 0
#define LOCKSTEP_OP(number, constant, message, word) +1
#include "operators/ops.inc"
    ;
#define LOCKSTEP_OP(number, constant, message, word) \
  static_assert(number < kOpCount, "operators/ops.inc: " #word " leaves out a number");
#include "operators/ops.inc"

// The operator's word: "rms_norm"; "?" for an unknown number.
std::string_view op_name(Op op);

// If table_by_op() calls this function, the table does not compile: the function is not constexpr.
// It is never defined.
void an_operator_has_two_rows_or_none();

// Builds a table keyed by operator from rows in any order, each with a field `op`. An operator
// without a row gets Row{}, whose op is kNone; two rows for one operator do not compile.
template <typename Row, size_t kRows>
consteval std::array<Row, kOpCount> table_by_op(const Row (&rows)[kRows]) {
  std::array<Row, kOpCount> table = {};
  for (const Row& row : rows) {
    Row& place = table[static_cast<size_t>(row.op)];
    if (row.op == Op::kNone || place.op != Op::kNone) an_operator_has_two_rows_or_none();
    place = row;
  }
  return table;
}

}  // namespace lockstep
