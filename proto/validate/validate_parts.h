// SPDX-License-Identifier: Apache-2.0
// The pieces of validate(), each relying on those before it. For proto/ alone.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "proto/program.pb.h"

namespace lockstep {

// Bytes of so many columns of a row of a value.
int64_t column_bytes(program::DType dtype, int64_t columns);

// Rows that the memory of a value was planned for.
int64_t max_rows(const program::Program& program, const program::Value& value);

// From the first byte to behind the last: 0 without columns. Values in range only.
int64_t extent_bytes(const program::Program& program, const program::Value& value);

// Operands, types, shapes, attributes, single assignment (validate_instructions.cc).
absl::Status check_instructions(const program::Program& program);

// No value is overwritten before its last reader (validate_arena.cc).
absl::Status check_arena(const program::Program& program);

}  // namespace lockstep
