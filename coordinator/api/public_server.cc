// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/public_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <spdlog/spdlog.h>

#include "base/status.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kReadinessPoll{50};

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address.starts_with("localhost:") ||
         address.starts_with("[::1]:") || address.starts_with("unix:");
}

}  // namespace

PublicServer::PublicServer(InferenceService* service) : service_(service), generation_(service) {}

absl::StatusOr<std::unique_ptr<PublicServer>> PublicServer::start(InferenceService* service,
                                                                  const std::string& address) {
  if (!is_loopback(address)) {
    spdlog::warn("{} can be reached from other machines, without TLS: keep it behind a gateway",
                 address);
  }
  std::unique_ptr<PublicServer> server(new PublicServer(service));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  set_server_options(builder);
  builder.RegisterService(&server->generation_);
  ASSIGN_OR_RETURN(server->server_,
                   GrpcServer::start(builder, address, connections_within_limit()));
  server->readiness_ = std::thread([raw = server.get()] { raw->follow_readiness(); });
  return server;
}

void PublicServer::follow_readiness() {
  grpc::HealthCheckServiceInterface* health = server_->server().GetHealthCheckService();
  while (!stopping_) {
    const bool ready = service_->engine().stats().ready;
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
