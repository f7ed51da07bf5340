// SPDX-License-Identifier: Apache-2.0
// What of a model's values each rank has: how the parts that ranks give are put together again, and
// what `lockstep inspect` shows of a layout.
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
  Range columns;            // Of the model's value, that this rank has (whole, partial: all).
  int64_t all_columns = 0;  // Of the model's value.
};

// By the name of a value in the rank's program. Values of several that one linear makes at once
// ("q_proj+k_proj+v_proj") are not here: views of their columns are.
using ValueParts = std::map<std::string, ValuePart>;

// By rank; of the programs that compile() makes.
absl::StatusOr<std::vector<ValueParts>> value_parts(const Graph& graph,
                                                    const CompileOptions& options);

}  // namespace lockstep
