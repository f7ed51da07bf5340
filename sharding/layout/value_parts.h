// SPDX-License-Identifier: Apache-2.0
// Each rank's part of the model's values, for joining the parts again and for `lockstep inspect`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/compile_options.h"
#include "sharding/layout/layout.h"

namespace lockstep {

struct ValuePart {
  Layout layout;
  Range columns;            // This rank's columns; of a whole or partial value, all columns.
  int64_t all_columns = 0;  // Columns of the model's value.
};

// By the name of a value in the rank's program. The joint result of fused linears
// ("q_proj+k_proj+v_proj") is not included, but the views of its columns are.
using ValueParts = std::map<std::string, ValuePart>;

// The parts of each rank, by rank, for the programs that compile() makes.
absl::StatusOr<std::vector<ValueParts>> value_parts(const Graph& graph,
                                                    const CompileOptions& options);

}  // namespace lockstep
