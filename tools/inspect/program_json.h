// SPDX-License-Identifier: Apache-2.0
// A rank's program as JSON, for the page of `lockstep inspect --html`. It uses lists without names,
// since a large model has thousands of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/program.pb.h"
#include "sharding/cost.h"
#include "sharding/layout/value_parts.h"
#include "worker/kernels/find.h"

namespace lockstep {

// The costs of the program's instructions in an example step.
struct PricedStep {
  std::string name;               // "one token after 1,023"
  std::vector<KernelCost> costs;  // By instruction.
};

struct InspectedProgram {
  const program::Program* program = nullptr;
  const ValueParts* parts = nullptr;  // The rank's parts.
  PlanRow totals;
  std::vector<PricedStep> steps;
};

// On one line; page.js describes the layout. Nothing in it ends a script element.
std::string program_json(const InspectedProgram& inspected);

}  // namespace lockstep
