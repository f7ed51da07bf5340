// SPDX-License-Identifier: Apache-2.0
// The ports of `lockstep serve` where clients call: flags, and what is started of them.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/public_server.h"
#include "coordinator/http/server.h"
#include "coordinator/openai/api.h"

namespace lockstep {

// "HOST:PORT"; the error names the flag.
absl::Status check_address(const char* flag, const std::string& address);

struct PortFlags {
  std::string grpc_address = "127.0.0.1:50051";
  std::string http_address = "127.0.0.1:8000";  // "off": none.
  int api_threads = 2;
  TlsFiles tls;                       // Of both.
  std::vector<std::string> insecure;  // Ports that may be plain off loopback.
  openai::ApiOptions api;

  void add_to(CLI::App& app);
  absl::Status check(const std::string& cluster_address) const;
};

// Both ports of one engine.
class ServedPorts {
 public:
  // They answer at once, as not ready. What is in `served` outlives them.
  static absl::StatusOr<std::unique_ptr<ServedPorts>> start(const ServedModel& served,
                                                            const PortFlags& flags);

  // "gRPC at 127.0.0.1:50051, HTTP at 127.0.0.1:8000"
  std::string names() const;
  // Idle connections go; answers that were begun are finished.
  void drain();
  // Waits until they are, for a moment.
  void wait_answered();

 private:
  // They go from the last to the first: tasks of the pool, which is the gRPC port's, use the API.
  std::unique_ptr<openai::Api> api_;
  std::unique_ptr<PublicServer> grpc_;
  std::unique_ptr<http::Server> http_;  // Null: off.
};

}  // namespace lockstep
