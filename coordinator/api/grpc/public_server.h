// SPDX-License-Identifier: Apache-2.0
// The port that clients call: Generation, the standard health service (serving while there is a
// group of workers) and reflection.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "coordinator/api/grpc/generation_service.h"
#include "coordinator/api/task_pool.h"
#include "coordinator/ports/grpc_server.h"

namespace lockstep {

struct PublicServerOptions {
  std::string address;          // In the form that Listener::bind() takes.
  int64_t max_connections = 0;  // Further ones are refused; 0: max_connections().
  TlsFiles tls;                 // Not set: plain TCP.
};

class PublicServer {
 public:
  // The number for which this process has descriptors, besides its other uses of them.
  static int64_t max_connections();
  // The pool outlives the server: its tasks end calls.
  static absl::StatusOr<std::unique_ptr<PublicServer>> start(const ServedModel& served,
                                                             TaskPool* pool,
                                                             const PublicServerOptions& options);
  // Ends open calls.
  ~PublicServer();

  // The bound address: "127.0.0.1:40123".
  const std::string& address() const { return server_->address(); }

 private:
  PublicServer(const ServedModel& served, TaskPool* pool)
      : served_(served), generation_(served, pool) {}
  void follow_readiness();

  const ServedModel served_;
  GenerationService generation_;
  std::unique_ptr<GrpcServer> server_;
  std::atomic<bool> stopping_{false};
  std::thread readiness_;
};

}  // namespace lockstep
