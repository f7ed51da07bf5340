// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ports/grpc_server.h"

#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/security/server_credentials.h>

#include <utility>
#include <vector>

#include "base/check.h"
#include "base/sockets/address.h"
#include "base/status.h"
#include "base/tls/server_tls.h"

namespace lockstep {
namespace {

class NoPlugins final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
  }
};

}  // namespace

void set_limits(grpc::ServerBuilder& builder, const ConnectionLimits& limits) {
  builder.SetMaxReceiveMessageSize(limits.max_message_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.max_streams);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, limits.handshake_ms);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, limits.idle_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // For our pings.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             limits.min_ping_interval_ms);
  // gRPC decompresses a message before it checks the message's size, and before anyone sees its
  // key.
  for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

void add_no_plugins(grpc::ServerBuilder& builder) {
  builder.SetOption(std::make_unique<NoPlugins>());
}

void serve_nothing_else(grpc::ServerBuilder& builder) {
  add_no_plugins(builder);
  builder.SetOption(std::make_unique<grpc::HealthCheckServiceServerBuilderOption>(nullptr));
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::start(grpc::ServerBuilder& builder,
                                                              const GrpcServerOptions& options) {
  using Builder = grpc::ServerBuilder::experimental_type;
  using Connection = grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters;
  std::unique_ptr<GrpcServer> server(new GrpcServer);
  ASSIGN_OR_RETURN(server->listener_,
                   Listener::bind(options.address, options.max_connections, options.when_full));
  server->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      Builder::ExternalConnectionType::FROM_FD, grpc::InsecureServerCredentials());
  std::function<void(int)> hand_over = [acceptor = server->acceptor_.get()](int descriptor) {
    Connection connection;
    connection.fd = descriptor;
    acceptor->HandleNewConnection(&connection);
  };
  LOCKSTEP_CHECK(options.front != Front::kNone || !options.tls.given());
  if (options.front != Front::kNone) {
    std::unique_ptr<TlsContext> tls;
    if (options.tls.given()) {
      ASSIGN_OR_RETURN(tls, TlsContext::load(options.tls, server->address(), TlsProtocol::kHttp2));
    }
    ASSIGN_OR_RETURN(
        server->front_,
        GrpcFront::start(server->address(), std::move(tls), std::move(hand_over),
                         options.front == Front::kPacedUntilKept, options.max_held_bytes));
    hand_over = [front = server->front_.get()](int descriptor) { front->adopt(descriptor); };
  }
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return absl::InternalError(fmt::format("gRPC did not start a server at {}", options.address));
  }
  if (options.before_clients != nullptr) options.before_clients(*server->server_);
  server->listener_->start(std::move(hand_over));
  return server;
}

void GrpcServer::keep(const std::string& peer) {
  listener_->keep(address_of_grpc_peer(peer));
  if (front_ != nullptr) front_->trust(peer);
}

void GrpcServer::shutdown(std::chrono::milliseconds patience) {
  stopped_ = true;
  listener_->stop();
  if (front_ != nullptr) front_->stop();
  server_->Shutdown(std::chrono::system_clock::now() + patience);
  server_->Wait();
}

GrpcServer::~GrpcServer() {
  if (server_ != nullptr && !stopped_) shutdown(std::chrono::milliseconds(0));
}

}  // namespace lockstep
