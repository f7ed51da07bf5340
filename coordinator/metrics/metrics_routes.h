// SPDX-License-Identifier: Apache-2.0
// What dashboards and the page ask for.
#pragma once

#include <vector>

#include "coordinator/engine.h"
#include "coordinator/http/router.h"
#include "coordinator/kept_streams.h"
#include "coordinator/metrics/engine_metrics.h"

namespace lockstep {

// GET /metrics: EngineMetrics::text(); GET /cluster: EngineMetrics::state_json(). All outlive the
// routes; `kept` may be null.
std::vector<http::Route> metrics_routes(const EngineMetrics* metrics, const Engine* engine,
                                        KeptStreams* kept);

}  // namespace lockstep
