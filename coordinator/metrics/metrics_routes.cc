// SPDX-License-Identifier: Apache-2.0
#include "coordinator/metrics/metrics_routes.h"

#include <utility>

namespace lockstep {
namespace {

void respond(http::Exchange& exchange, const char* content_type, std::string body) {
  exchange.respond({.headers = {{"Content-Type", content_type}, {"Cache-Control", "no-store"}},
                    .body = std::move(body)});
}

}  // namespace

std::vector<http::Route> metrics_routes(const EngineMetrics* metrics, const Engine* engine,
                                        const Cluster* cluster,
                                        const std::function<ServerCounts()>& counts) {
  return {{"GET", "/metrics",
           [=](const std::shared_ptr<http::Exchange>& exchange) {
             respond(*exchange, "text/plain; version=0.0.4; charset=utf-8",
                     metrics->text(engine->stats(), counts()));
           }},
          {"GET", "/cluster", [=](const std::shared_ptr<http::Exchange>& exchange) {
             respond(*exchange, "application/json",
                     metrics->state_json(engine->stats(), cluster->workers()));
           }}};
}

}  // namespace lockstep
