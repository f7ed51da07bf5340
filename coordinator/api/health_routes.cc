// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/health_routes.h"

#include "base/version.h"
#include "coordinator/http/json_response.h"

namespace lockstep::http {
namespace {

// An answer that no cache may keep: it is true only at this moment.
Response state_response(const OrderedJson& json, int status = 200) {
  Response response = json_response(json, status);
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

Response unavailable(const std::string& reason) {
  Response response = state_response({{"status", "unavailable"}, {"reason", reason}}, 503);
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

// A lost group does not make a server unhealthy: the next group forms without help, and requests
// wait for it.
Response health(const Engine& engine) {
  if (engine.stats().group.ranks > 0) return state_response({{"status", "ok"}});
  return unavailable("no group of workers is complete yet");
}

Response readiness(const Engine& engine) {
  if (engine.stats().ready) return state_response({{"status", "ok"}});
  const absl::Status accepting = engine.accepting();
  const std::string reason =
      accepting.ok() ? "a worker does not answer at the moment" : message_of(accepting);
  return unavailable(reason);
}

}  // namespace

std::vector<Route> health_routes(const ServedModel& served) {
  const auto alive = [](const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(state_response({{"status", "ok"}}));
  };
  const auto healthy = [engine = served.engine](const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(health(*engine));
  };
  const auto ready = [engine = served.engine](const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(readiness(*engine));
  };
  const auto version = [](const std::shared_ptr<Exchange>& exchange) {
    exchange->respond(state_response({{"version", kVersion}}));
  };
  return {{"GET", "/health", healthy},
          {"GET", "/ping", healthy},
          {"GET", "/livez", alive},
          {"GET", "/readyz", ready},
          {"GET", "/version", version}};
}

}  // namespace lockstep::http
