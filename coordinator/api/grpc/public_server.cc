// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/grpc/public_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>

#include <utility>
#include <vector>

#include "base/status.h"
#include "coordinator/api/grpc/reflection_guard.h"
#include "coordinator/api/grpc/wire.h"
#include "coordinator/api/limits.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kReadinessPoll{50};

// docs/security.md explains each limit.
constexpr ConnectionLimits kConnectionLimits = {.max_message_bytes = kMaxMessageBytes,
                                                .max_streams = 256,
                                                .handshake_ms = 10'000,
                                                .idle_ms = 300'000,
                                                .min_ping_interval_ms = 4'000};

}  // namespace

int64_t PublicServer::max_connections() {
  return connections_within_limit(GrpcFront::kDescriptors);
}

absl::StatusOr<std::unique_ptr<PublicServer>> PublicServer::start(
    const ServedModel& served, TaskPool* pool, const PublicServerOptions& options) {
  quieten_protobuf();
  std::unique_ptr<PublicServer> server(new PublicServer(served, pool));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  set_limits(builder, kConnectionLimits);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> guards;
  guards.push_back(guard_reflection(served.keys));
  builder.experimental().SetInterceptorCreators(std::move(guards));
  builder.RegisterService(&server->generation_);
  ASSIGN_OR_RETURN(server->server_,
                   GrpcServer::start(builder, {.address = options.address,
                                               .max_connections = options.max_connections > 0
                                                                      ? options.max_connections
                                                                      : max_connections(),
                                               .tls = options.tls,
                                               .when_full = WhenFull::kShare}));
  server->readiness_ = std::thread([raw = server.get()] { raw->follow_readiness(); });
  return server;
}

void PublicServer::follow_readiness() {
  grpc::HealthCheckServiceInterface* health = server_->server().GetHealthCheckService();
  while (!stopping_) {
    const bool ready = served_.engine->stats().ready;
    health->SetServingStatus(ready);
    health->SetServingStatus("lockstep.v1.Generation", ready);
    std::this_thread::sleep_for(kReadinessPoll);
  }
}

PublicServer::~PublicServer() {
  stopping_ = true;
  if (readiness_.joinable()) readiness_.join();
  if (server_ != nullptr) server_->shutdown(std::chrono::milliseconds(500));
}

}  // namespace lockstep
