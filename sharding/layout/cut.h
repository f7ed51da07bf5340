// SPDX-License-Identifier: Apache-2.0
// Selects rows or columns of a parameter, by cutting its rectangles of the checkpoint's tensors.
#pragma once

#include "models/graph/graph.h"
#include "sharding/layout/plan.h"

namespace lockstep {

// Ranges are in units of the axis. An empty range of rows leaves no pieces; an empty range of
// columns leaves every piece without columns.
Parameter cut_rows(const Parameter& parameter, Range units);
Parameter cut_cols(const Parameter& parameter, Range units);

}  // namespace lockstep
