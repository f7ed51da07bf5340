// SPDX-License-Identifier: Apache-2.0
// Everything that answers requests, put together: cluster server, local workers, engine. `serve`,
// `generate` and `bench` are thin around it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/cluster/cluster_server.h"
#include "coordinator/cluster/remote_cluster.h"
#include "coordinator/cluster/workers/launcher.h"
#include "coordinator/engine/engine.h"
#include "coordinator/model/model.h"

namespace lockstep {

struct ServiceOptions {
  int workers = 1;                   // Ranks of the group.
  bool launch = true;                // Start them here; else they are awaited at `cluster_address`.
  int threads = 1;                   // Of each local worker.
  bool pin = true;                   // See LauncherOptions.
  std::vector<std::string> devices;  // Of each local worker; empty: processors.
  bool fast = false;                 // See LauncherOptions.
  double memory_fraction = 0;        // Likewise.
  // Where workers dial in, "host:port"; "": a private Unix socket, for local workers only.
  std::string cluster_address;
  std::string token;     // Wanted with `cluster_address`; "": drawn.
  TlsFiles cluster_tls;  // Of that port, both ways; not given: plain.
  int64_t kv_memory_bytes = 0;
  int64_t max_pages = 0;  // KV pages that can be of use; 0: as many as the model's limits fill.
  std::string log_level = "warning";
  std::string log_format = "text";
  std::string weight_cache = "off";  // Of local workers, see LauncherOptions.
  int64_t weight_cache_limit = 0;
  int64_t silent_ms = 1'000;  // See ClusterCoreOptions.
  int64_t stuck_ms = 10'000;
  int64_t grace_ms = 1'500;
  int min_workers = 1;
  int64_t regrow_ms = 60'000;
  std::vector<double> speeds = {};
  EngineOptions engine;
  std::function<void(int64_t done, int64_t total)> load_progress;
};

// The workers of one model and the port where they dial in, without an engine: who has it forms
// groups and runs steps itself. Destroying it ends the workers.
class ClusterHost {
 public:
  // Returns as soon as workers can join. `model` outlives it.
  static absl::StatusOr<std::unique_ptr<ClusterHost>> start(const Model* model,
                                                            const ServiceOptions& options);
  ~ClusterHost();

  RemoteCluster& cluster() { return *cluster_; }
  const std::string& address() const { return address_; }
  // Null where workers are not started here.
  const Launcher* launcher() const { return launcher_.get(); }

 private:
  ClusterHost() = default;
  absl::Status listen(const Model& model, const ServiceOptions& service, const std::string& token);

  std::string address_;
  std::unique_ptr<RemoteCluster> cluster_;
  std::unique_ptr<ClusterServer> server_;
  std::unique_ptr<Launcher> launcher_;
};

// Thread-safe once started. Destroying it ends the requests and the workers.
class InferenceService {
 public:
  // Returns as soon as workers can join; wait_ready() waits for the group. `model` outlives it.
  static absl::StatusOr<std::unique_ptr<InferenceService>> start(const Model* model,
                                                                 ServiceOptions options);

  Engine& engine() { return *engine_; }
  const Model& model() const { return *model_; }
  const ServiceOptions& options() const { return options_; }
  const std::string& cluster_address() const { return host_->address(); }
  const Cluster& cluster() const { return host_->cluster(); }
  // Null where workers are not started here.
  const Launcher* launcher() const { return host_->launcher(); }
  absl::Status wait_ready() { return engine_->wait_ready(); }
  // Makes wait_ready() return and ends the requests in flight. Any thread, does not block.
  void stop() { engine_->stop(); }

 private:
  InferenceService() = default;

  const Model* model_ = nullptr;
  ServiceOptions options_;
  std::unique_ptr<ClusterHost> host_;
  std::unique_ptr<Engine> engine_;  // Goes first: that ends the streams and the epoch.
};

}  // namespace lockstep
