// SPDX-License-Identifier: Apache-2.0
// A rank's program as JSON, for the page of `lockstep inspect --html`. Values, weights and
// instructions are lists without field names, since a large model has thousands of them.
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

// JSON on one line. program_json.cc describes its lists, and page.js reads them. No text in it ends
// an HTML script element.
std::string program_json(const InspectedProgram& inspected);

}  // namespace lockstep
