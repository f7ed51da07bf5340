// SPDX-License-Identifier: Apache-2.0
// A rank's program as JSON, for the page of `lockstep inspect --html`: all that the page shows, in
// lists without names, since a large model has thousands of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/program.pb.h"
#include "sharding/cost.h"
#include "sharding/layout/value_parts.h"
#include "worker/kernels/find.h"

namespace lockstep {

// What the program's instructions cost in a step that is worth looking at.
struct PricedStep {
  std::string name;               // "one token behind 1,023"
  std::vector<KernelCost> costs;  // By instruction.
};

struct InspectedProgram {
  const program::Program* program = nullptr;
  const ValueParts* parts = nullptr;  // Of its rank.
  PlanRow totals;
  std::vector<PricedStep> steps;
};

// On one line; page.js says what is where. Nothing in it ends a script element.
std::string program_json(const InspectedProgram& inspected);

}  // namespace lockstep
