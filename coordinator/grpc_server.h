// SPDX-License-Identifier: Apache-2.0
// A gRPC server whose connections come from a Listener: the public port's and the cluster's.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/listener.h"

namespace lockstep {

class GrpcServer {
 public:
  // Binds `address` (as Listener::bind), then starts what the builder describes, without TLS.
  // kInvalidArgument, one line: the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> start(grpc::ServerBuilder& builder,
                                                           const std::string& address,
                                                           int64_t max_connections);
  // As shutdown(), at once, unless that was called.
  ~GrpcServer();

  // As bound: "127.0.0.1:40123".
  const std::string& address() const { return listener_->address(); }
  grpc::Server& server() { return *server_; }
  // Takes no more calls; those that are open after `patience` are cancelled. Returns when gRPC is
  // done with all of them.
  void shutdown(std::chrono::milliseconds patience);

 private:
  GrpcServer() = default;

  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;  // Goes first: its thread uses the acceptor.
  bool stopped_ = false;
};

}  // namespace lockstep
