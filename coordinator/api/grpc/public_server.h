// SPDX-License-Identifier: Apache-2.0
// The port that clients of gRPC call: Generation, the standard health service and reflection.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "base/threads/mutex.h"
#include "coordinator/api/grpc/generation_service.h"
#include "coordinator/api/grpc/reflection_service.h"
#include "coordinator/api/task_pool.h"
#include "coordinator/http/connection/server.h"
#include "coordinator/http/grpc/health_service.h"

namespace lockstep {

struct PublicServerOptions {
  std::string address;          // In the form that Listener::bind() takes.
  int64_t max_connections = 0;  // Further ones are refused; 0: connections_within_limit().
  TlsFiles tls;                 // Not set: plain TCP.
};

class PublicServer {
 public:
  // `pool` outlives the server: the pool's tasks answer calls.
  static absl::StatusOr<std::unique_ptr<PublicServer>> start(const ServedModel& served,
                                                             TaskPool* pool,
                                                             const PublicServerOptions& options);
  // Accepts no more calls, waits at most 0.5 s for the open ones, and ends those that are left.
  ~PublicServer();

  // The bound address: "127.0.0.1:40123".
  const std::string& address() const { return server_->address(); }
  // Notifies clients that they must open no more calls on their connections; open calls continue.
  // Calls on connections that are opened later are answered.
  void drain() { server_->drain(); }

 private:
  PublicServer(const ServedModel& served, TaskPool* pool);
  void answer(const std::shared_ptr<http::Exchange>& exchange);
  bool is_ready() const { return engine_->stats().ready; }
  void follow_engine() ABSL_LOCKS_EXCLUDED(mutex_);

  Engine* const engine_;
  const GenerationService generation_;
  HealthService health_;
  const ReflectionService reflection_;
  std::unique_ptr<http::Server> server_;  // Its threads use the members above.
  Mutex mutex_;
  ConditionVariable stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread follower_;
};

}  // namespace lockstep
