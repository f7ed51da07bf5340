// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/grpc/public_server.h"

#include <chrono>
#include <optional>
#include <utility>

#include "base/status.h"
#include "coordinator/api/key_gate.h"
#include "coordinator/api/limits.h"
#include "coordinator/http/grpc/wire.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kPatience{500};  // For calls that are open at the end.
// The interval of checks whether the engine is ready. If ranks are silent for some time, the engine
// is no longer ready, and no event reports this.
constexpr std::chrono::milliseconds kPoll{50};

// docs/security.md explains each limit.
http::Limits limits() {
  http::Limits limits;
  limits.read.body_bytes = kMaxMessageBytes + kMessagePrefix;
  limits.max_streams = 256;
  limits.idle = std::chrono::minutes(5);
  return limits;
}

// Only health checks need no key.
http::Gate gate_of_calls(const ApiKeys* keys) {
  const std::string health(HealthService::kPrefix);
  const http::Gate gate =
      keys != nullptr ? gate_of(keys, {health + "Check", health + "Watch"}) : nullptr;
  return [gate](const http::Request& head) {
    http::Admission admission = gate != nullptr ? gate(head) : http::Admission();
    admission.streams_body = head.path == ReflectionService::kMethod;
    // Callers without a key must not fill the server's memory.
    if (head.path.starts_with(HealthService::kPrefix)) {
      admission.max_body_bytes = HealthService::kMaxRequestBytes + kMessagePrefix;
    }
    return admission;
  };
}

}  // namespace

PublicServer::PublicServer(const ServedModel& served, TaskPool* pool)
    : engine_(served.engine),
      generation_(served, pool),
      health_([this](const std::string& service) -> std::optional<bool> {
        const bool is_known = service.empty() || service == "lockstep.v1.Generation";
        return is_known ? std::optional(is_ready()) : std::nullopt;
      }) {
  follower_ = std::thread([this] { follow_engine(); });
}

absl::StatusOr<std::unique_ptr<PublicServer>> PublicServer::start(
    const ServedModel& served, TaskPool* pool, const PublicServerOptions& options) {
  quieten_protobuf();
  std::unique_ptr<PublicServer> server(new PublicServer(served, pool));
  ASSIGN_OR_RETURN(
      server->server_,
      http::Server::start({.address = options.address,
                           .protocol = TlsProtocol::kHttp2,
                           .max_connections = options.max_connections,
                           .limits = limits(),
                           .refusal = render_refused_call,
                           .gate = gate_of_calls(served.keys),
                           .when_full = http::WhenFull::kShare,
                           .tls = options.tls},
                          [raw = server.get()](const std::shared_ptr<http::Exchange>& exchange) {
                            raw->answer(exchange);
                          }));
  return server;
}

void PublicServer::answer(const std::shared_ptr<http::Exchange>& exchange) {
  const std::string& path = exchange->request().path;
  const absl::Status is_call = check_call(exchange->request());
  if (!is_call.ok()) return fail(exchange, is_call);
  if (path.starts_with(GenerationService::kPrefix)) return generation_.answer(exchange);
  if (path.starts_with(HealthService::kPrefix)) return health_.answer(exchange);
  if (path == ReflectionService::kMethod) return reflection_.answer(exchange);
  fail(exchange, no_such_method());
}

PublicServer::~PublicServer() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    stop_.notify_all();
  }
  follower_.join();
  if (server_ == nullptr) return;
  server_->drain();
  server_->wait_answered(kPatience);
  server_.reset();
}

void PublicServer::follow_engine() {
  bool was_ready = false;
  MutexLock lock(&mutex_);
  while (!stopping_) {
    const bool is_ready = this->is_ready();
    if (std::exchange(was_ready, is_ready) != is_ready) health_.wake_watchers();
    stop_.wait_until(&mutex_, std::chrono::steady_clock::now() + kPoll);
  }
}

}  // namespace lockstep
