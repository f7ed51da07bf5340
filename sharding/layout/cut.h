// SPDX-License-Identifier: Apache-2.0
// Cuts rows or columns out of a parameter, through to the rectangles of the checkpoint.
#pragma once

#include "models/graph/graph.h"
#include "sharding/layout/plan.h"

namespace lockstep {

// Ranges are in units of the axis that is cut. An empty range of rows leaves no pieces, one of
// columns leaves every piece without columns.
Parameter cut_rows(const Parameter& parameter, Range units);
Parameter cut_cols(const Parameter& parameter, Range units);

}  // namespace lockstep
