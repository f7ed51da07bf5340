// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/grpc/health_port.h"

#include <chrono>
#include <optional>

#include "base/status.h"
#include "coordinator/http/grpc/wire.h"

namespace lockstep {
namespace {

// A probe is one call with the name of a service. docs/security.md explains the limits.
http::Limits limits() {
  http::Limits limits;
  limits.read.header_bytes = 8 << 10;
  limits.read.body_bytes = HealthService::kMaxRequestBytes + kMessagePrefix;
  limits.all_body_bytes = 4 << 20;
  limits.max_streams = 4;
  limits.header = std::chrono::seconds(5);
  limits.idle = std::chrono::seconds(30);
  return limits;
}

}  // namespace

HealthPort::HealthPort()
    : health_([this](const std::string& service) -> std::optional<bool> {
        if (service == "live") return true;
        if (service.empty() || service == "ready") return ready_;
        return std::nullopt;
      }) {}

absl::StatusOr<std::unique_ptr<HealthPort>> HealthPort::start(const std::string& address) {
  quieten_protobuf();
  std::unique_ptr<HealthPort> port(new HealthPort);
  ASSIGN_OR_RETURN(
      port->server_,
      http::Server::start({.address = address,
                           .protocol = TlsProtocol::kHttp2,
                           .threads = 1,
                           .max_connections = kMaxConnections,
                           .limits = limits(),
                           .refusal = render_refused_call,
                           .when_full = http::WhenFull::kCloseOther},
                          [raw = port.get()](const std::shared_ptr<http::Exchange>& exchange) {
                            raw->answer(exchange);
                          }));
  return port;
}

void HealthPort::answer(const std::shared_ptr<http::Exchange>& exchange) {
  const absl::Status is_call = check_call(exchange->request());
  if (!is_call.ok()) return fail(exchange, is_call);
  if (exchange->request().path.starts_with(HealthService::kPrefix)) return health_.answer(exchange);
  fail(exchange, no_such_method());
}

void HealthPort::set_ready(bool ready) {
  ready_ = ready;
  health_.wake_watchers();
}

}  // namespace lockstep
