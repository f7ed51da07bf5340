// SPDX-License-Identifier: Apache-2.0
// The route that lists the workers that have joined.
#pragma once

#include "coordinator/cluster/group.h"
#include "coordinator/http/router.h"

namespace lockstep {

// GET /workers: {"workers": [{"role": "serving", "rank": 0, "host": ..., "joined_ms": ...}, ...]},
// one element per worker with the fields of WorkerState ("holds" is `covers`). "rank" is null if
// the worker has no rank; "holds" is null if it has not preloaded weights. The cluster outlives the
// route.
http::Route workers_route(const Cluster* cluster);

}  // namespace lockstep
