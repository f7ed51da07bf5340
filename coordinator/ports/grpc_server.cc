// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ports/grpc_server.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/security/server_credentials.h>

#include <utility>
#include <vector>

#include "base/check.h"
#include "base/sockets/address.h"
#include "base/status.h"
#include "base/tls/reloading_tls.h"

namespace lockstep {
namespace {

// TLS with the last good files. gRPC requests them when a connection begins, on one thread at a
// time: the one that starts the server, then its listener's. (gRPC 1.51's own file watcher accepts
// any file, then refuses handshakes, and aborts the process if a file is empty.)
class TlsCredentials final : public grpc::ServerCredentials {
 public:
  TlsCredentials(std::unique_ptr<ReloadingTls> files, bool mutual)
      : files_(std::move(files)),
        // A signature by the authority is enough: a client has no host name to compare.
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                       : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
                fetch, this))) {}
  ~TlsCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {
    LOCKSTEP_CHECK(false);  // The services check API keys themselves.
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  static grpc_ssl_certificate_config_reload_status fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    return static_cast<TlsCredentials*>(self)->fetch(config);
  }
  grpc_ssl_certificate_config_reload_status fetch(grpc_ssl_server_certificate_config** config);

  const std::unique_ptr<ReloadingTls> files_;
  std::shared_ptr<const LoadedTls> used_;  // The files that gRPC uses; null: none yet.
  grpc_server_credentials* const credentials_;
};

grpc_ssl_certificate_config_reload_status TlsCredentials::fetch(
    grpc_ssl_server_certificate_config** config) {
  std::shared_ptr<const LoadedTls> good = files_->get();
  if (good == used_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const TlsBytes& bytes = good->bytes;
  const grpc_ssl_pem_key_cert_pair pair = {.private_key = bytes.key.c_str(),
                                           .cert_chain = bytes.cert.c_str()};
  // Debian's gRPC asserts that there are authorities, even if no client certificate is requested.
  const std::string& authorities = bytes.ca.empty() ? bytes.cert : bytes.ca;
  *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
  used_ = std::move(good);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials_of(
    const TlsFiles& files, const std::string& address) {
  if (!files.given()) return grpc::InsecureServerCredentials();
  ASSIGN_OR_RETURN(auto loaded, ReloadingTls::load(files, {.user = address}));
  return std::make_shared<TlsCredentials>(std::move(loaded), /*mutual=*/!files.ca.empty());
}

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
}

void serve_nothing_else(grpc::ServerBuilder& builder) {
  builder.SetOption(std::make_unique<NoPlugins>());
  builder.SetOption(std::make_unique<grpc::HealthCheckServiceServerBuilderOption>(nullptr));
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::start(grpc::ServerBuilder& builder,
                                                              const GrpcServerOptions& options) {
  using Builder = grpc::ServerBuilder::experimental_type;
  using Connection = grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters;
  std::unique_ptr<GrpcServer> server(new GrpcServer);
  ASSIGN_OR_RETURN(server->listener_,
                   Listener::bind(options.address, options.max_connections, options.when_full));
  const TlsFiles grpc_tls = options.has_front ? TlsFiles() : options.tls;
  ASSIGN_OR_RETURN(server->credentials_, credentials_of(grpc_tls, server->address()));
  server->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      Builder::ExternalConnectionType::FROM_FD, server->credentials_);
  std::function<void(int)> hand_over = [acceptor = server->acceptor_.get()](int descriptor) {
    Connection connection;
    connection.fd = descriptor;
    acceptor->HandleNewConnection(&connection);
  };
  if (options.has_front) {
    std::unique_ptr<TlsContext> tls;
    if (options.tls.given()) {
      ASSIGN_OR_RETURN(tls, TlsContext::load(options.tls, server->address(), TlsProtocol::kHttp2));
    }
    ASSIGN_OR_RETURN(server->front_,
                     GrpcFront::start(server->address(), std::move(tls), std::move(hand_over)));
    hand_over = [front = server->front_.get()](int descriptor) { front->adopt(descriptor); };
  }
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return absl::InternalError(fmt::format("gRPC did not start a server at {}", options.address));
  }
  server->listener_->start(std::move(hand_over));
  return server;
}

void GrpcServer::keep(const std::string& peer) { listener_->keep(address_of_grpc_peer(peer)); }

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
