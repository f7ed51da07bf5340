// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/cluster_server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/status.h"
#include "base/system/clock.h"
#include "coordinator/cluster/workers/worker_call.h"
#include "coordinator/http/grpc/wire.h"
#include "coordinator/ports/listener.h"

namespace lockstep {
namespace {

using Call = std::shared_ptr<http::Exchange>;

constexpr char kChallenge[] = "/lockstep.cluster.Cluster/Challenge";
constexpr char kJoin[] = "/lockstep.cluster.Cluster/Join";
constexpr std::chrono::milliseconds kPatience{200};  // For the last messages to workers.

// A worker has one connection, and the public port has most of the descriptors. The bound is so
// high that a connection has time to join before it is closed for a newer one.
int64_t max_connections() { return std::max<int64_t>(64, connections_within_limit() / 8); }

// docs/security.md explains the limits.
http::Limits limits() {
  http::Limits limits;
  limits.read.header_bytes = 8 << 10;
  // Only heads count here, because bodies are not kept. One network may have half of this limit,
  // and half is more than all heads of all connections take. So strangers cannot keep out workers
  // of their own network.
  limits.all_body_bytes = 192 << 20;
  limits.max_streams = 4;  // A worker opens one, after one other call.
  limits.idle = std::chrono::seconds(30);
  limits.unproven = http::UnprovenLimits();  // A worker proves itself by its second call.
  // A worker may read late while it loads. A stopped worker answers no ping, and so is noticed.
  limits.write = std::chrono::hours(24);
  return limits;
}

// "10.0.0.1" of "10.0.0.1:50052". The name of a Unix socket is not changed.
std::string host_of(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterServer>> ClusterServer::start(
    const ClusterServerOptions& options, LinkListener* listener) {
  std::unique_ptr<ClusterServer> server(new ClusterServer(options, listener));
  ASSIGN_OR_RETURN(
      server->server_,
      http::Server::start({.address = options.address,
                           .protocol = TlsProtocol::kHttp2,
                           .threads = 1,
                           .max_connections = max_connections(),
                           .limits = limits(),
                           .refusal = render_refused_call,
                           // A call is answered or becomes a link before its body is received.
                           .gate =
                               [](const http::Request& /*head*/) {
                                 return http::Admission{.streams_body = true,
                                                        .has_endless_body = true};
                               },
                           .when_full = http::WhenFull::kCloseOther,
                           .tls = options.tls},
                          [raw = server.get()](const Call& call) { raw->answer(call); }));
  return server;
}

ClusterServer::~ClusterServer() {
  if (server_ == nullptr) return;
  {
    MutexLock lock(&mutex_);
    for (const auto& [link, call] : links_) call->close(unavailable("the coordinator ends"));
  }
  server_->drain();
  server_->wait_answered(kPatience);
  server_.reset();
}

// ---- The I/O thread ----

void ClusterServer::answer(const Call& call) {
  const http::Request& head = call->request();
  absl::Status status = check_call(head);
  if (status.ok()) {
    status = head.path == kChallenge ? challenge(call)
             : head.path == kJoin    ? join(call)
                                     : absl::UnimplementedError("no such call here");
  }
  if (status.ok()) return;
  log_refused(head, status);
  fail(call, status);
}

absl::Status ClusterServer::challenge(const Call& call) {
  const http::Request& head = call->request();
  const std::string salt = draw_nonce().substr(0, Challenges::kSaltBytes);
  ASSIGN_OR_RETURN(
      const cluster::ChallengeReply message,
      challenges_.open(steady_now_ms(), host_of(head.peer), head.header(kNonceMetadata), salt));
  reply(call, message);
  return absl::OkStatus();
}

absl::Status ClusterServer::join(const Call& call) {
  const http::Request& head = call->request();
  RETURN_IF_ERROR(challenges_.verify(steady_now_ms(), host_of(head.peer),
                                     {.nonce = head.header(kNonceMetadata),
                                      .worker_nonce = head.header(kWorkerNonceMetadata),
                                      .proof = head.header(kProofMetadata)}));
  call->keep_connection();
  const LinkId link = ++last_link_;
  auto opened = std::make_shared<WorkerCall>(
      WorkerCall::Events{.on_message =
                             [this, link](cluster::WorkerMessage message) {
                               listener_->on_message(link, std::move(message));
                             },
                         .on_end = [this, link] { end(link); }},
      max_message_bytes_, call->waker());
  {
    MutexLock lock(&mutex_);
    links_.emplace(link, opened);
  }
  listener_->on_opened(link);
  WorkerCall::begin(opened, *call);
  return absl::OkStatus();
}

void ClusterServer::log_refused(const http::Request& call, const absl::Status& why) {
  const int64_t calls = refusals_.count();
  if (calls == 0) return;
  spdlog::warn("refused a call of {} from {}{}: {}", printable(call.path), call.peer,
               calls > 1 ? fmt::format(" and {} others", calls - 1) : "", message_of(why));
}

void ClusterServer::end(LinkId link) {
  {
    MutexLock lock(&mutex_);
    links_.erase(link);
  }
  listener_->on_closed(link);
}

// ---- Any thread ----

std::shared_ptr<WorkerCall> ClusterServer::find(LinkId link) {
  MutexLock lock(&mutex_);
  const auto found = links_.find(link);
  return found == links_.end() ? nullptr : found->second;
}

void ClusterServer::send(const std::vector<LinkId>& links,
                         const cluster::CoordinatorMessage& message) {
  auto bytes = std::make_shared<std::string>();  // All links share it.
  append_message(message, bytes.get());
  for (const LinkId link : links) {
    if (const auto call = find(link); call != nullptr) call->send(bytes);
  }
}

void ClusterServer::close(LinkId link, bool after_sending) {
  const auto call = find(link);
  if (call == nullptr) return;
  after_sending ? call->close(absl::OkStatus())
                : call->cut(absl::CancelledError("the coordinator ended this stream"));
}

}  // namespace lockstep
