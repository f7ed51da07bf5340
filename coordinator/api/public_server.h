// SPDX-License-Identifier: Apache-2.0
// The port that clients call: Generation, the standard health service (serving while a group
// stands) and reflection.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "coordinator/api/generation_service.h"
#include "coordinator/grpc_server.h"

namespace lockstep {

class PublicServer {
 public:
  // `address`: "host:port"; port 0 takes a free one. `service` outlives it.
  static absl::StatusOr<std::unique_ptr<PublicServer>> start(InferenceService* service,
                                                             const std::string& address);
  // Ends open calls.
  ~PublicServer();

  // As bound: "127.0.0.1:40123".
  const std::string& address() const { return server_->address(); }

 private:
  explicit PublicServer(InferenceService* service);
  void follow_readiness();

  InferenceService* const service_;
  GenerationService generation_;
  std::unique_ptr<GrpcServer> server_;
  std::atomic<bool> stopping_{false};
  std::thread readiness_;
};

}  // namespace lockstep
