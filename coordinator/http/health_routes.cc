// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/health_routes.h"

#include "base/json.h"
#include "base/version.h"

namespace lockstep::http {
namespace {

Response json_response(const OrderedJson& json, int status = 200) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
          .body = json.dump()};
}

Response readiness(const Engine& engine) {
  if (engine.stats().ready) return json_response({{"status", "ok"}});
  const absl::Status accepting = engine.accepting();
  const std::string reason =
      accepting.ok() ? "a worker does not answer at the moment" : message_of(accepting);
  Response response = json_response({{"status", "unavailable"}, {"reason", reason}}, 503);
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

}  // namespace

std::vector<Route> health_routes(const ServedModel& served) {
  const auto alive = [](const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(json_response({{"status", "ok"}}));
  };
  const auto ready = [engine = served.engine](const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(readiness(*engine));
  };
  const auto version = [](const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(json_response({{"version", kVersion}}));
  };
  return {{"GET", "/health", alive},
          {"GET", "/livez", alive},
          {"GET", "/readyz", ready},
          {"GET", "/version", version}};
}

}  // namespace lockstep::http
