// SPDX-License-Identifier: Apache-2.0
// The parts of validate(); each relies on those before it. For proto/ alone.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "proto/program.pb.h"

namespace lockstep {

// The bytes of this many columns in a row of a value.
int64_t column_bytes(program::DType dtype, int64_t columns);

// The number of rows that the memory of a value was planned for.
int64_t max_rows(const program::Program& program, const program::Value& value);

// The bytes from the beginning of a value's first row to the end of its last row: 0 without
// columns. The value must be in range.
int64_t extent_bytes(const program::Program& program, const program::Value& value);

// Checks operands, types, shapes, attributes, single assignment (validate_instructions.cc).
absl::Status check_instructions(const program::Program& program);

// Checks that no value is overwritten before its last reader (validate_arena.cc).
absl::Status check_arena(const program::Program& program);

}  // namespace lockstep
