// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/config.h"
#include "models/graph.h"

namespace lockstep {

void build_exaone4(Graph& graph, const Config& config);

}  // namespace lockstep
