// SPDX-License-Identifier: Apache-2.0
// The routes for probes, which need no knowledge of the model.
#pragma once

#include <vector>

#include "coordinator/api/served_model.h"
#include "coordinator/http/router.h"

namespace lockstep::http {

// GET /livez: 200 while the process answers, whatever the state of its workers. /readyz: 200 while
// a request would be accepted, else 503 with {"status": "unavailable", "reason"}. /health and
// /ping: 503 until the first group of workers is complete, then 200. /version: {"version"}.
std::vector<Route> health_routes(const ServedModel& served);

}  // namespace lockstep::http
