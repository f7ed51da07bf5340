// SPDX-License-Identifier: Apache-2.0
// Compares a group's values with those of a reference, which are the results of transformers or of
// another program. Gives the error of each value, and the first value that differs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cluster/group.h"
#include "models/graph/graph.h"
#include "proto/program.pb.h"
#include "sharding/layout/value_parts.h"
#include "tools/verify/reference.h"

namespace lockstep {

struct VerifyOptions {
  double tolerance = 2e-4;  // Max error, relative to the value's largest element.
  int64_t rows = 512;       // Rows per step; a longer prompt takes several steps.
};

// The largest error of one value, over all rows and ranks.
struct Comparison {
  int instruction = 0;    // In rank 0's program.
  std::string op;         // The operator: "linear".
  std::string name;       // "model.layers.0.self_attn.o_proj.all"
  std::string reference;  // The reference's value.
  double error = 0;       // Divided by the reference's largest element; infinite if not a number.
  int64_t row = 0;        // The row of the largest error, counted in the prompt.
  int64_t column = 0;     // Its column in the whole value.
  int rank = -1;          // The rank that made the value; -1: the sum of all addends.
  float found = 0;
  float wanted = 0;
  bool differs = false;  // The error is above the tolerance.
};

// An operator that may be the cause of a difference.
struct Suspect {
  int instruction = 0;
  std::string op;
  std::string name;  // The name of the operator's value.
};

struct Verification {
  // All values of the program, fused ones counted individually, and the best tokens.
  int64_t values = 0;
  std::vector<Comparison> compared;  // In the order of instructions.
  std::optional<Comparison> first;   // The first that differs.
  // Possible causes of `first`: its operator, and operators before it whose values the reference
  // does not have. In the order of instructions.
  std::vector<Suspect> suspects;
};

// `programs` and `parts`, by rank, are compiled from `model`; the group runs them and has run
// nothing else yet. Errors: those of the group; kInvalidArgument if the prompt does not fit, or
// nothing could be compared.
absl::StatusOr<Verification> verify(const Graph& model, std::span<const program::Program> programs,
                                    std::span<const ValueParts> parts, const Reference& reference,
                                    const VerifyOptions& options, Group& group);

}  // namespace lockstep
