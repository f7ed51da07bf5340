// SPDX-License-Identifier: Apache-2.0
// Who has joined, for operators.
#pragma once

#include "coordinator/cluster/group.h"
#include "coordinator/http/router.h"

namespace lockstep {

// GET /workers: {"workers": [{"role": "serving", "rank": 0, "host": ..., "joined_ms": ...}, ...]},
// a worker per element as in WorkerState; "rank" is null for one that has none, and so is "holds",
// the rank whose weights a spare has. It outlives the route.
http::Route workers_route(const Cluster* cluster);

}  // namespace lockstep
