// SPDX-License-Identifier: Apache-2.0
// The ports of `lockstep serve` for clients and the operator: their flags and servers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/flag.h"
#include "base/log.h"
#include "coordinator/api/api_keys.h"
#include "coordinator/api/grpc/public_server.h"
#include "coordinator/api/task_pool.h"
#include "coordinator/cluster/cluster_server.h"
#include "coordinator/http/browser_rules.h"
#include "coordinator/http/connection/server.h"
#include "coordinator/metrics/engine_metrics.h"
#include "coordinator/openai/api.h"
#include "coordinator/trace/trace_requests.h"

namespace lockstep {

// "HOST:PORT"; the error names the flag.
absl::Status check_address(const char* flag, const std::string& address);

// The engine's observers. Requests at the ports read them. They must outlive the ports.
struct Observed {
  const EngineMetrics* metrics = nullptr;
  TraceRecorder* recorder = nullptr;
  const Log* log = nullptr;
  const Cluster* cluster = nullptr;
};

struct PortFlags {
  std::string grpc_address = "127.0.0.1:50051";  // "off": none.
  std::string http_address = "127.0.0.1:8000";   // "off": none.
  std::string admin_address = "off";             // "off": none.
  int api_threads = 2;
  TlsFiles tls;                       // For all three ports.
  std::vector<std::string> insecure;  // Ports that may use plain text off loopback.
  std::string api_keys;               // A file; "": any client may call.
  int lowest_priority = 0;            // The min priority of requests if there are no keys.
  http::BrowserRules browsers;
  bool no_page = false;  // No page at the HTTP port.
  openai::ApiOptions openai;

  std::vector<Flag> flags();
  absl::Status check(const ClusterServerOptions& cluster) const;
};

// The ports of one engine.
class ServedPorts {
 public:
  // The ports answer at once, as not ready. The members of `served` outlive the ports.
  static absl::StatusOr<std::unique_ptr<ServedPorts>> start(ServedModel served,
                                                            const Observed& observed,
                                                            const PortFlags& flags);

  // "gRPC at 127.0.0.1:50051, HTTP at 127.0.0.1:8000"
  std::string names() const;
  // The parsers of OpenAI's API, by FormatChoice::line(); empty without HTTP.
  std::string parsers() const { return api_ == nullptr ? "" : api_->formats().line(); }
  // From now on each answer ends its connection, over HTTP and gRPC. The operator's port is not
  // affected.
  void drain();
  // Closes the gRPC port. Accepts no more connections over HTTP, and waits until all are closed,
  // for at most a second.
  void finish();

 private:
  absl::Status start_http(const ServedModel& served, const Observed& observed,
                          const PortFlags& flags, int64_t max_connections);
  absl::Status start_admin(const ServedModel& served, const Observed& observed,
                           const PortFlags& flags, int64_t max_connections);
  std::vector<http::Route> routes_of_metrics(const ServedModel& served,
                                             const Observed& observed) const;

  // Servers are destroyed first, then the pool with its tasks.
  std::unique_ptr<ApiKeys> keys_;  // Null: no keys.
  std::unique_ptr<openai::Api> api_;
  std::unique_ptr<TaskPool> pool_;
  std::unique_ptr<TraceRequests> trace_;  // Null: no admin port.
  std::unique_ptr<PublicServer> grpc_;    // Null: off.
  std::unique_ptr<http::Server> http_;    // Null: off.
  std::unique_ptr<http::Server> admin_;   // Null: off.
};

}  // namespace lockstep
