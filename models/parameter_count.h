// SPDX-License-Identifier: Apache-2.0
// How many numbers a model's weights have.
#pragma once

#include <cstdint>

#include "models/graph.h"

namespace lockstep {

// Each element that is read of the checkpoint counts once: a tied head adds nothing.
int64_t count_parameters(const Graph& graph);

}  // namespace lockstep
