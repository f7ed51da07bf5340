// SPDX-License-Identifier: Apache-2.0
// A group's values compared with a reference's: the error of each, and the first that differs.
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
  double tolerance = 2e-4;  // Of an error, relative to the value's largest element.
  int64_t rows = 512;       // Of a step: a longer prompt takes several.
};

// The largest error of one value, over all rows and ranks.
struct Comparison {
  int instruction = 0;    // Of rank 0's program.
  std::string op;         // That made it: "linear".
  std::string name;       // "model.layers.0.self_attn.o_proj.all"
  std::string reference;  // With what it was compared.
  double error = 0;       // Divided by the reference's largest element; infinite if not a number.
  int64_t row = 0;        // Where it is largest: of the prompt,
  int64_t column = 0;     // and of the whole value,
  int rank = -1;          // which this rank made; -1: a sum of all ranks' addends.
  float found = 0;
  float wanted = 0;
  bool differs = false;  // The error is not within the tolerance.
};

// An operator on the way from values that agree.
struct Suspect {
  int instruction = 0;
  std::string op;
  std::string name;  // Of the value that it makes.
};

struct Verification {
  int64_t values = 0;  // Of the program, fused ones counted one by one, and the best tokens.
  std::vector<Comparison> compared;  // In the order of instructions.
  std::optional<Comparison> first;   // That differs.
  // What may have made `first` differ: its operator, and those before it whose values the reference
  // does not have. In their order.
  std::vector<Suspect> suspects;
};

// `programs` and `parts`, by rank, are what `model` was compiled to and what the group runs; it has
// run nothing else yet. Errors are the group's, kInvalidArgument where the prompt does not fit, or
// nothing could be compared.
absl::StatusOr<Verification> verify(const Graph& model, std::span<const program::Program> programs,
                                    std::span<const ValueParts> parts, const Reference& reference,
                                    const VerifyOptions& options, Group& group);

}  // namespace lockstep
