// SPDX-License-Identifier: Apache-2.0
// The places of experts' matrices in a checkpoint.
#pragma once

#include <string>

#include "models/graph/graph.h"

namespace lockstep {

// `name` is experts.name with its scopes.
Parameter expert_weight(const std::string& name, const Experts& experts, AxisSize out, AxisSize in);
Parameter expert_bias(const std::string& name, const Experts& experts, AxisSize out);

}  // namespace lockstep
