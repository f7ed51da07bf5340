// SPDX-License-Identifier: Apache-2.0
// What probes ask: routes that need no model's knowledge.
#pragma once

#include <vector>

#include "coordinator/api/served_model.h"
#include "coordinator/http/router.h"

namespace lockstep::http {

// GET /livez: 200 while the process answers, whatever its workers do. /readyz: 200 while a request
// would be taken, else 503 with {"status": "unavailable", "reason"}. /health and /ping: 200 from
// the first whole group of workers on, before it 503. /version.
std::vector<Route> health_routes(const ServedModel& served);

}  // namespace lockstep::http
