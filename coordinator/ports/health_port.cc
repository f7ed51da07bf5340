// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ports/health_port.h"

#include <grpcpp/health_check_service_interface.h>

#include "base/status.h"

namespace lockstep {
namespace {

constexpr char kLive[] = "live";
constexpr char kReady[] = "ready";

// A probe is one call with the name of a service. docs/security.md explains the limits.
constexpr ConnectionLimits kLimits = {.max_message_bytes = 1 << 10,
                                      .max_streams = 4,
                                      .handshake_ms = 5'000,
                                      .idle_ms = 30'000,
                                      .min_ping_interval_ms = 4'000};
constexpr int64_t kMaxHeldBytes = 4 << 20;

void set(grpc::Server& server, const char* service, bool serving) {
  server.GetHealthCheckService()->SetServingStatus(service, serving);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HealthPort>> HealthPort::start(const std::string& address) {
  std::unique_ptr<HealthPort> port(new HealthPort);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  set_limits(builder, kLimits);
  add_no_plugins(builder);
  builder.RegisterCallbackGenericService(&port->others_);  // gRPC needs a service besides health.
  ASSIGN_OR_RETURN(port->server_, GrpcServer::start(builder, {.address = address,
                                                              .max_connections = kMaxConnections,
                                                              .when_full = WhenFull::kCloseOldest,
                                                              .max_held_bytes = kMaxHeldBytes,
                                                              .before_clients = [](auto& server) {
                                                                set(server, kLive, true);
                                                                set(server, kReady, false);
                                                                set(server, "", false);
                                                              }}));
  return port;
}

void HealthPort::set_ready(bool ready) {
  set(server_->server(), kReady, ready);
  set(server_->server(), "", ready);
}

}  // namespace lockstep
