// SPDX-License-Identifier: Apache-2.0
// Routes for dashboards and the page.
#pragma once

#include <functional>
#include <vector>

#include "coordinator/engine/engine.h"
#include "coordinator/http/router.h"
#include "coordinator/metrics/engine_metrics.h"
#include "coordinator/streams/resumable_streams.h"

namespace lockstep {

// GET /metrics: EngineMetrics::text(); GET /cluster: EngineMetrics::state_json(). All pointers
// outlive the routes. Any thread may call `counts`.
std::vector<http::Route> metrics_routes(const EngineMetrics* metrics, const Engine* engine,
                                        const Cluster* cluster,
                                        const std::function<ServerCounts()>& counts);

}  // namespace lockstep
