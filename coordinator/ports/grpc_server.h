// SPDX-License-Identifier: Apache-2.0
// A gRPC server whose connections come from a Listener: the public port's and the cluster's.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls/tls_files.h"
#include "coordinator/ports/grpc_front.h"
#include "coordinator/ports/listener.h"

namespace lockstep {

// What one connection may cost. Pings go to quiet connections too, every 5 s: one that does not
// answer within 10 s is closed. HTTP2_MAX_PING_STRIKES keeps its default: at 0 a client may ping
// without end.
struct ConnectionLimits {
  int max_message_bytes = 0;  // Received; gRPC refuses more.
  int max_streams = 0;        // Calls open at once.
  int handshake_ms = 0;
  int idle_ms = 0;               // Without a call.
  int min_ping_interval_ms = 0;  // Of the peer's pings while it has no call.
};
void set_limits(grpc::ServerBuilder& builder, const ConnectionLimits& limits);

// Without the services that gRPC adds to every server of a process once one of them has asked for
// them: reflection and health.
void serve_nothing_else(grpc::ServerBuilder& builder);

// Whether connections come through a GrpcFront, which ends TLS and paces clients: all of them, or
// those that are not kept, which then have 10 s. kNone is for clients that need neither.
enum class Front : uint8_t { kNone, kPaced, kPacedUntilKept };

struct GrpcServerOptions {
  std::string address;  // See Listener::bind.
  int64_t max_connections = 0;
  TlsFiles tls;  // May change (LastGoodTls). Not given: plain.
  WhenFull when_full = WhenFull::kRefuse;
  Front front = Front::kPaced;
};

class GrpcServer {
 public:
  // Binds the address, then starts what the builder describes. kInvalidArgument, one line: the
  // address cannot be bound, or the certificate not be used.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> start(grpc::ServerBuilder& builder,
                                                           const GrpcServerOptions& options);
  // As shutdown(), at once, unless that was called.
  ~GrpcServer();

  // As bound: "127.0.0.1:40123".
  const std::string& address() const { return listener_->address(); }
  grpc::Server& server() { return *server_; }
  // The client has proved who it is: as Listener::keep(), and paced no more where others are.
  // `peer`: as gRPC's contexts name it, "ipv4:127.0.0.1:40123".
  void keep(const std::string& peer);
  // Takes no more calls; those that are open after `patience` are cancelled. Returns when gRPC is
  // done with all of them.
  void shutdown(std::chrono::milliseconds patience);

 private:
  GrpcServer() = default;

  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<GrpcFront> front_;  // Null: none. Sends the server's last bytes.
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;  // Goes first: its thread uses the rest.
  bool stopped_ = false;
};

}  // namespace lockstep
