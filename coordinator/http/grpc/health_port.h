// SPDX-License-Identifier: Apache-2.0
// A plain-text port for the probes of a worker's process: grpc.health.v1.Health, nothing else.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/http/connection/server.h"
#include "coordinator/http/grpc/health_service.h"

namespace lockstep {

// Its services: "live" is SERVING while the port is open; "ready" and "" are SERVING if the last
// set_ready() was true, and NOT_SERVING before the first one. For any other name, Check ends with
// NOT_FOUND, and Watch reports SERVICE_UNKNOWN.
class HealthPort {
 public:
  // If this many are open, a new one closes a random connection of the network that has the most.
  // So strangers of another network cannot keep a probe out.
  static constexpr int64_t kMaxConnections = 16;

  // `address` as Listener::bind() takes it. kInvalidArgument, one line: it cannot be bound.
  static absl::StatusOr<std::unique_ptr<HealthPort>> start(const std::string& address);

  // Any thread.
  void set_ready(bool ready);
  // The bound address: "127.0.0.1:40123".
  const std::string& address() const { return server_->address(); }

 private:
  HealthPort();
  void answer(const std::shared_ptr<http::Exchange>& exchange);

  std::atomic<bool> ready_{false};
  HealthService health_;
  std::unique_ptr<http::Server> server_;  // Destroyed first: its thread uses the other members.
};

}  // namespace lockstep
