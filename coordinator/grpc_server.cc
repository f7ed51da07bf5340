// SPDX-License-Identifier: Apache-2.0
#include "coordinator/grpc_server.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "absl/strings/str_replace.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr unsigned kLookSeconds = 1;  // For changed files.

std::shared_ptr<grpc::ServerCredentials> credentials_of(const TlsFiles& files) {
  if (!files.given()) return grpc::InsecureServerCredentials();
  using grpc::experimental::FileWatcherCertificateProvider;
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(files.key, files.cert, files.ca,
                                                       kLookSeconds));
  options.watch_identity_key_cert_pairs();
  if (!files.ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    // That the authority signed it is enough: a client has no host name to compare.
    options.set_certificate_verifier(
        std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace

void set_limits(grpc::ServerBuilder& builder, const ConnectionLimits& limits) {
  builder.SetMaxReceiveMessageSize(limits.max_message_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.max_streams);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, limits.handshake_ms);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, limits.idle_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // Ours, to a quiet peer.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             limits.min_ping_interval_ms);
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::start(grpc::ServerBuilder& builder,
                                                              const std::string& address,
                                                              int64_t max_connections,
                                                              const TlsFiles& tls,
                                                              WhenFull when_full) {
  using Builder = grpc::ServerBuilder::experimental_type;
  using Connection = grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters;
  // gRPC says nothing of files that it cannot use, and would close each connection.
  if (tls.given()) RETURN_IF_ERROR(TlsContext::load(tls).status());
  std::unique_ptr<GrpcServer> server(new GrpcServer);
  ASSIGN_OR_RETURN(server->listener_, Listener::bind(address, max_connections, when_full));
  server->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      Builder::ExternalConnectionType::FROM_FD, credentials_of(tls));
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) {
    return absl::InternalError(fmt::format("gRPC did not start a server at {}", address));
  }
  server->listener_->start([acceptor = server->acceptor_.get()](int descriptor) {
    Connection connection;
    connection.fd = descriptor;
    acceptor->HandleNewConnection(&connection);
  });
  return server;
}

// In a URI's spelling: "ipv6:%5B::1%5D:40123".
void GrpcServer::keep(const std::string& peer) {
  const std::string address = peer.substr(peer.find(':') + 1);
  listener_->keep(absl::StrReplaceAll(address, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}}));
}

void GrpcServer::shutdown(std::chrono::milliseconds patience) {
  stopped_ = true;
  listener_->stop();
  server_->Shutdown(std::chrono::system_clock::now() + patience);
  server_->Wait();
}

GrpcServer::~GrpcServer() {
  if (server_ != nullptr && !stopped_) shutdown(std::chrono::milliseconds(0));
}

}  // namespace lockstep
