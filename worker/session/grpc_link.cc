// SPDX-License-Identifier: Apache-2.0
// The synchronous stream is the simplest solution: one call, one reader, one writer.
#include "worker/session/grpc_link.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <chrono>
#include <utility>
#include <vector>

#include "base/status.h"
#include "proto/cluster.grpc.pb.h"
#include "proto/handshake.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kChallengeTimeout{5};

// The meaning of a refusal by gRPC; "" if another try may help.
std::string why_refused(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      return fmt::format(
          "the coordinator refused this worker: {}: set LOCKSTEP_JOIN_TOKEN to the same value on "
          "both sides",
          status.error_message());
    case grpc::StatusCode::UNIMPLEMENTED:
      return fmt::format(
          "the coordinator does not speak this worker's protocol {}: install one "
          "version on both sides",
          kProtocolVersion);
    default:
      return "";
  }
}

// The credentials have the last good contents of the files. No watcher of the files is needed,
// since each link opens a channel of its own, with new credentials. A watcher of gRPC 1.51 would
// abort the process if a file is empty.
std::shared_ptr<grpc::ChannelCredentials> credentials_of(const DialOptions& dial) {
  if (dial.tls == nullptr) return grpc::InsecureChannelCredentials();
  using grpc::experimental::IdentityKeyCertPair;
  using grpc::experimental::StaticDataCertificateProvider;
  const std::shared_ptr<const LoadedTls> good = dial.tls->get();
  const IdentityKeyCertPair own{.private_key = good->bytes.key,
                                .certificate_chain = good->bytes.cert};
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<StaticDataCertificateProvider>(good->bytes.ca, std::vector{own}));
  options.watch_identity_key_cert_pairs();
  options.watch_root_certs();
  if (dial.knows_coordinator) {
    options.set_check_call_host(false);
    options.set_certificate_verifier(
        std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  }
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::Channel> open_channel(const DialOptions& dial) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // Programs are large.
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 5000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(dial.coordinator, credentials_of(dial), arguments);
}

class GrpcLink final : public Link {
 public:
  explicit GrpcLink(const DialOptions& dial)
      : stub_(cluster::Cluster::NewStub(open_channel(dial))) {}

  absl::Status open(const std::string& token, const std::stop_token& stop);

  bool read(cluster::CoordinatorMessage* message) override { return stream_->Read(message); }
  bool write(const cluster::WorkerMessage& message) override { return stream_->Write(message); }
  void finish_writing() override { stream_->WritesDone(); }
  void cancel() override { context_.TryCancel(); }
  absl::Status finish() override {
    const std::string refusal = why_refused(stream_->Finish());
    return refusal.empty() ? absl::OkStatus() : absl::PermissionDeniedError(refusal);
  }

 private:
  using Stream = grpc::ClientReaderWriter<cluster::WorkerMessage, cluster::CoordinatorMessage>;

  const std::unique_ptr<cluster::Cluster::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
};

absl::Status GrpcLink::open(const std::string& token, const std::stop_token& stop) {
  const std::string nonce = draw_nonce();
  cluster::ChallengeReply reply;
  {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kChallengeTimeout);
    context.AddMetadata(kNonceMetadata, to_hex(nonce));
    const std::stop_callback on_stop(stop, [&context] { context.TryCancel(); });
    const grpc::Status status = stub_->Challenge(&context, {}, &reply);
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    if (const std::string refusal = why_refused(status); !refusal.empty()) {
      return absl::PermissionDeniedError(refusal);
    }
    if (!status.ok()) return unavailable("{}", status.error_message());
  }
  if (reply.nonce().size() != kNonceBytes ||
      !same_secret(reply.proof(), coordinator_proof(token, nonce, reply.nonce()))) {
    return absl::PermissionDeniedError(
        "the coordinator does not know this worker's join token: set LOCKSTEP_JOIN_TOKEN to the "
        "same value on both sides");
  }
  context_.AddMetadata(kNonceMetadata, to_hex(reply.nonce()));
  context_.AddMetadata(kWorkerNonceMetadata, to_hex(nonce));
  context_.AddMetadata(kProofMetadata, to_hex(worker_proof(token, reply.nonce(), nonce)));
  stream_ = stub_->Join(&context_);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Link>> dial(const DialOptions& options,
                                           const std::stop_token& stop) {
  auto link = std::make_unique<GrpcLink>(options);
  RETURN_IF_ERROR(link->open(options.token, stop));
  return link;
}

}  // namespace lockstep
