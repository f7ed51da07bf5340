// SPDX-License-Identifier: Apache-2.0
// Describes where a checkpoint has the matrices of experts.
#pragma once

#include <string>

#include "models/graph/graph.h"

namespace lockstep {

// `name` is experts.name with the prefixes of the open scopes.
Parameter expert_weight(const std::string& name, const Experts& experts, AxisSize out, AxisSize in);
Parameter expert_bias(const std::string& name, const Experts& experts, AxisSize out);

}  // namespace lockstep
