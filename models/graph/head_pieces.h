// SPDX-License-Identifier: Apache-2.0
// A vector per head, side by side as one parameter. For models/graph/graph.cc alone.
#pragma once

#include <string>

#include "models/graph/graph.h"

namespace lockstep {

// `name` is complete, with ".weight". If it has a star for the head's number, it names one tensor
// per head, else one tensor [heads, head_dim].
Parameter vector_by_head(const std::string& name, program::Role role, AxisSize heads, float plus);

}  // namespace lockstep
