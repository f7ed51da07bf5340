// SPDX-License-Identifier: Apache-2.0
// A gRPC server whose connections come from a Listener: the public port's and the cluster's.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls/tls_files.h"
#include "coordinator/ports/grpc_front.h"
#include "coordinator/ports/listener.h"

namespace lockstep {

// Limits of one connection. Quiet connections are pinged every 5 s, too: one that does not answer
// within 10 s is closed. HTTP2_MAX_PING_STRIKES keeps its default: at 0 a client may ping without
// limit.
struct ConnectionLimits {
  int max_message_bytes = 0;  // Max received size; gRPC refuses larger ones.
  int max_streams = 0;        // Max calls open at once.
  int handshake_ms = 0;
  int idle_ms = 0;               // Without a call.
  int min_ping_interval_ms = 0;  // For the peer's pings without a call.
};
void set_limits(grpc::ServerBuilder& builder, const ConnectionLimits& limits);

// Excludes the services of plugins that are linked into the process: reflection.
void add_no_plugins(grpc::ServerBuilder& builder);
// Also excludes health, which gRPC adds to every server of a process after one has requested it.
void serve_nothing_else(grpc::ServerBuilder& builder);

// Whether connections pass through a GrpcFront, which ends TLS and limits the rate of each client.
// kPaced limits all connections. kPacedUntilKept limits a connection until keep() is called for it,
// and closes it if that takes 10 s. kNone has no front, so no TLS either.
enum class Front : uint8_t { kNone, kPaced, kPacedUntilKept };

struct GrpcServerOptions {
  std::string address;  // See Listener::bind.
  int64_t max_connections = 0;
  TlsFiles tls;  // May change (ReloadingTls). If not given: plain text.
  WhenFull when_full = WhenFull::kRefuse;
  Front front = Front::kPaced;
  int64_t max_held_bytes = GrpcShares::kMaxHeldBytes;  // With a front: for calls of all clients.
  // Called before the first connection is accepted.
  std::function<void(grpc::Server& server)> before_clients = nullptr;
};

class GrpcServer {
 public:
  // Binds the address, then starts the builder's server. kInvalidArgument, one line: the address
  // cannot be bound, or the certificate cannot be used.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> start(grpc::ServerBuilder& builder,
                                                           const GrpcServerOptions& options);
  // Calls shutdown() without patience, unless it was called.
  ~GrpcServer();

  // The bound address: "127.0.0.1:40123".
  const std::string& address() const { return listener_->address(); }
  grpc::Server& server() { return *server_; }
  // Marks a client that has proved who it is: see Listener::keep(). Its front stops pacing it.
  // `peer`: gRPC's form, "ipv4:127.0.0.1:40123".
  void keep(const std::string& peer);
  // Accepts no more calls; those still open after `patience` are cancelled. Returns when gRPC is
  // done with all of them.
  void shutdown(std::chrono::milliseconds patience);

 private:
  GrpcServer() = default;

  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<GrpcFront> front_;  // Null: none. Sends the server's last bytes.
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;  // Destroyed first: its thread uses the rest.
  bool stopped_ = false;
};

}  // namespace lockstep
