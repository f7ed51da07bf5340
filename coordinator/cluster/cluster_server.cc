// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/cluster_server.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/sockets/address.h"
#include "base/status.h"
#include "base/system/clock.h"
#include "coordinator/cluster/workers/worker_call.h"
#include "proto/handshake.h"

namespace lockstep {
namespace {

constexpr char kChallenge[] = "/lockstep.cluster.Cluster/Challenge";
constexpr char kJoin[] = "/lockstep.cluster.Cluster/Join";

// Workers have one each; the public port has most of the descriptors. The bound is high enough that
// a connection has time to join before it is the oldest and closed for a newer one.
int64_t max_connections() {
  return std::max<int64_t>(64, connections_within_limit(GrpcFront::kDescriptors) / 8);
}

// "10.0.0.1" for "ipv4:10.0.0.1:50052" and for the name that a front gives to that peer. The name
// of a Unix socket is not changed.
std::string host_of(const std::string& peer) {
  const std::string address = address_of_grpc_peer(peer);
  return is_unix_address(address) ? address : address.substr(0, address.rfind(':'));
}

// An abstract name accepts only processes of this user, so it needs no front.
Front front_of(const ClusterServerOptions& options) {
  const bool is_private = options.address.starts_with(kAbstractPrefix) && !options.tls.given();
  return is_private ? Front::kNone : Front::kPacedUntilKept;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterServer>> ClusterServer::start(
    const ClusterServerOptions& options, LinkListener* listener) {
  std::unique_ptr<ClusterServer> server(new ClusterServer(options, listener));
  grpc::ServerBuilder builder;
  set_limits(builder, {.max_message_bytes = options.max_message_bytes,
                       .max_streams = 4,  // A worker opens one, after one other call.
                       .handshake_ms = 5'000,
                       .idle_ms = 30'000,
                       .min_ping_interval_ms = 2'000});
  builder.SetMaxSendMessageSize(-1);
  serve_nothing_else(builder);
  builder.RegisterAsyncGenericService(&server->service_);
  server->queue_ = builder.AddCompletionQueue();
  ASSIGN_OR_RETURN(server->server_,
                   GrpcServer::start(builder, {.address = options.address,
                                               .max_connections = max_connections(),
                                               .tls = options.tls,
                                               .when_full = WhenFull::kCloseOldest,
                                               .front = front_of(options)}));
  WorkerCall::accept(server.get(), &server->service_, server->queue_.get());
  server->thread_ = std::thread([raw = server.get()] { raw->serve(); });
  return server;
}

ClusterServer::~ClusterServer() {
  if (server_ != nullptr) server_->shutdown(std::chrono::milliseconds(0));
  {
    MutexLock lock(&mutex_);  // A cancelled call must still be finished on the queue.
    while (calls_ > 0) call_gone_.wait(&mutex_);
  }
  if (queue_ != nullptr) queue_->Shutdown();
  if (thread_.joinable()) thread_.join();
}

void ClusterServer::serve() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
    const auto& [call, event] = *static_cast<const WorkerCall::Tag*>(tag);
    if (event == WorkerCall::Event::kAccepted && ok) {
      WorkerCall::accept(this, &service_, queue_.get());
    }
    call->on(event, ok);
  }
}

// ---- The queue's thread ----

void ClusterServer::take(WorkerCall& call) {
  const std::string nonce = call.metadata(kNonceMetadata);
  const std::string peer = host_of(call.peer());
  if (call.method() == kChallenge) {
    const std::string salt = draw_nonce().substr(0, Challenges::kSaltBytes);
    const auto reply = challenges_.open(steady_now_ms(), peer, nonce, salt);
    return reply.ok() ? call.reply(*reply) : refuse(call, reply.status());
  }
  if (call.method() != kJoin) return refuse(call, absl::UnimplementedError("no such call here"));
  const std::string worker_nonce = call.metadata(kWorkerNonceMetadata);
  const std::string proof = call.metadata(kProofMetadata);
  const absl::Status known = challenges_.verify(
      steady_now_ms(), peer, {.nonce = nonce, .worker_nonce = worker_nonce, .proof = proof});
  if (!known.ok()) return refuse(call, known);
  server_->keep(call.peer());
  const LinkId link = ++last_link_;
  listener_->on_opened(link);
  std::shared_ptr<WorkerCall> opened = call.open(link);
  MutexLock lock(&mutex_);
  links_.emplace(link, std::move(opened));
}

void ClusterServer::refuse(WorkerCall& call, const absl::Status& why) {
  if (const int64_t calls = refusals_.count(); calls > 0) {
    spdlog::warn("refused a call of {} from {}{}: {}", printable(call.method()),
                 address_of_grpc_peer(call.peer()),
                 calls > 1 ? fmt::format(" and {} others", calls - 1) : "", message_of(why));
  }
  call.refuse(grpc::Status(static_cast<grpc::StatusCode>(why.code()), message_of(why)));
}

void ClusterServer::forget(LinkId link) {
  MutexLock lock(&mutex_);
  links_.erase(link);
}

void ClusterServer::count(int change) {
  MutexLock lock(&mutex_);
  calls_ += change;
  if (calls_ == 0) call_gone_.notify_all();
}

// ---- Any thread ----

std::shared_ptr<WorkerCall> ClusterServer::find(LinkId link) {
  MutexLock lock(&mutex_);
  const auto found = links_.find(link);
  return found == links_.end() ? nullptr : found->second;
}

void ClusterServer::send(const std::vector<LinkId>& links,
                         const cluster::CoordinatorMessage& message) {
  const grpc::ByteBuffer buffer = to_buffer(message);  // Its copies share the bytes.
  for (const LinkId link : links) {
    if (const auto call = find(link); call != nullptr) call->send(buffer);
  }
}

void ClusterServer::close(LinkId link, bool after_sending) {
  if (const auto call = find(link); call != nullptr) call->close(after_sending);
}

}  // namespace lockstep
