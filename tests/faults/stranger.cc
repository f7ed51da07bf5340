// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/stranger.h"

#include <utility>

#include "proto/cluster.grpc.pb.h"
#include "proto/handshake.h"
#include "worker/backend.h"
#include "worker/session/grpc_link.h"
#include "worker/session/session.h"

namespace lockstep::faults {
namespace {

// Joins without the token; returns the call's status.
grpc::Status join_without_token(const std::string& address) {
  const auto stub =
      cluster::Cluster::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  const auto in_a_minute = [] {
    return std::chrono::system_clock::now() + std::chrono::minutes(1);
  };
  const std::string nonce = draw_nonce();
  cluster::ChallengeReply reply;
  {
    grpc::ClientContext context;
    context.set_deadline(in_a_minute());
    context.AddMetadata(kNonceMetadata, to_hex(nonce));
    const grpc::Status status = stub->Challenge(&context, {}, &reply);
    if (!status.ok()) return status;
  }
  grpc::ClientContext context;
  context.set_deadline(in_a_minute());
  context.AddMetadata(kNonceMetadata, to_hex(reply.nonce()));
  context.AddMetadata(kWorkerNonceMetadata, to_hex(nonce));
  context.AddMetadata(kProofMetadata, to_hex(worker_proof("a guess", reply.nonce(), nonce)));
  const auto stream = stub->Join(&context);
  cluster::CoordinatorMessage message;
  while (stream->Read(&message)) {
  }
  return stream->Finish();
}

// Words that must be in the reason of this stranger's refusal.
const char* reason_for(StrangerKind kind) {
  switch (kind) {
    case StrangerKind::kOtherHost:
      return "another host";
    case StrangerKind::kOtherDevice:
      return "numeric class";
    case StrangerKind::kOldProtocol:
      return "protocol";
    default:
      return "";
  }
}

}  // namespace

Stranger::Stranger(StrangerKind kind, const JoinPoint& at, int workers)
    : kind_(kind), thread_([this, at, workers] {
        run(at, workers);
        ended_ = true;
      }) {}

Stranger::~Stranger() {
  leaving_ = true;
  thread_.join();
}

void Stranger::run(const JoinPoint& at, int workers) {
  if (kind_ == StrangerKind::kWrongToken) {
    const grpc::Status status = join_without_token(at.address);
    if (status.error_code() != grpc::StatusCode::PERMISSION_DENIED) {
      error_ = fmt::format("a wrong token got code {}: {}", static_cast<int>(status.error_code()),
                           status.error_message());
    }
    return;
  }
  absl::StatusOr<std::unique_ptr<Link>> link =
      dial({.coordinator = at.address, .token = at.token}, {});
  if (!link.ok()) {
    error_ = "a stranger with the token could not join: " + message_of(link.status());
    return;
  }
  link_ = *std::move(link);
  std::thread heart([this, workers] { introduce(workers); });
  const std::string refusal = read_refusal();
  if (!leaving_ && refusal.find(reason_for(kind_)) == std::string::npos) {
    error_ = fmt::format("the refusal must say \"{}\", not \"{}\"", reason_for(kind_), refusal);
  }
  leaving_ = true;
  heart.join();
  static_cast<void>(link_->finish());
}

// Introduces the worker and sends heartbeats, so that the coordinator does not count it as lost.
void Stranger::introduce(int workers) {
  using std::chrono::milliseconds;
  const Backend backend = cpu_backend();
  cluster::WorkerMessage message;
  cluster::Hello& hello = *message.mutable_hello();
  hello = hello_of({.preferred_rank = workers - 1}, backend);
  if (kind_ == StrangerKind::kOtherHost) hello.set_host("elsewhere");
  if (kind_ == StrangerKind::kOldProtocol) hello.set_protocol(kProtocolVersion - 1);
  if (kind_ == StrangerKind::kOtherDevice) {
    hello.set_device("cuda 0000:17:00.0");
    hello.set_numeric_class("cuda.exact.v1");
  }
  if (kind_ != StrangerKind::kNoHello) link_->write(message);
  message.mutable_heartbeat();
  while (!leaving_) {
    if (kind_ != StrangerKind::kNoHello) link_->write(message);
    for (int i = 0; i < 25 && !leaving_; ++i) std::this_thread::sleep_for(milliseconds(10));
  }
  link_->cancel();
}

std::string Stranger::read_refusal() {
  std::string reason;
  cluster::CoordinatorMessage message;
  while (link_->read(&message)) {
    if (message.has_refusal()) reason = message.refusal().reason();
  }
  return reason;
}

}  // namespace lockstep::faults
