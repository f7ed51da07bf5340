// SPDX-License-Identifier: Apache-2.0
// A plain-text port for the probes of a worker's process: grpc.health.v1.Health, nothing else.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/ports/grpc_server.h"

namespace lockstep {

// Its services: "live" is SERVING while the port is open; "ready" and "" say what set_ready() said
// last, at first NOT_SERVING. Check of any other name is NOT_FOUND, Watch SERVICE_UNKNOWN. gRPC's
// health service is one per process: no other server of the process may have it.
class HealthPort {
 public:
  // One more connection closes the oldest: a stranger that keeps them open locks no probe out.
  static constexpr int64_t kMaxConnections = 16;

  // `address` as Listener::bind() takes it. kInvalidArgument, one line: it cannot be bound.
  static absl::StatusOr<std::unique_ptr<HealthPort>> start(const std::string& address);

  // Any thread.
  void set_ready(bool ready);
  // The bound address: "127.0.0.1:40123".
  const std::string& address() const { return server_->address(); }

 private:
  HealthPort() = default;

  grpc::CallbackGenericService others_;  // Ends each call of another service: UNIMPLEMENTED.
  std::unique_ptr<GrpcServer> server_;
};

}  // namespace lockstep
