// SPDX-License-Identifier: Apache-2.0
// Everything that answers requests: cluster server, local workers, engine. The commands `serve`,
// `generate` and `bench` use it.
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
  // With `launch` the service starts the workers, with `worker_arguments`; else workers that the
  // user starts must join. The service sets the fields that follow from the model, for instance
  // `compile` and `assignment`.
  ClusterCoreOptions cluster;
  // The port where workers join. An empty address: a private Unix socket, for local workers only.
  // The token may be empty only if the address is empty: then the service draws a random token.
  ClusterServerOptions server;
  std::function<std::vector<std::string>(int index)> worker_arguments;  // See LauncherOptions.
  EngineOptions engine;
  std::function<void(int64_t done, int64_t total)> load_progress;
};

// The workers of one model and the port where they join, without an engine: its owner forms groups
// and runs steps itself. The destructor ends the workers.
class ClusterHost {
 public:
  // Returns as soon as workers can join. `model` outlives the result.
  static absl::StatusOr<std::unique_ptr<ClusterHost>> start(const Model* model,
                                                            const ServiceOptions& options);
  ~ClusterHost();

  RemoteCluster& cluster() { return *cluster_; }
  const std::string& address() const { return address_; }
  // Null if workers are not started here.
  const Launcher* launcher() const { return launcher_.get(); }

 private:
  ClusterHost() = default;
  absl::Status listen(const Model& model, ClusterServerOptions options);

  std::string address_;
  std::unique_ptr<RemoteCluster> cluster_;
  std::unique_ptr<ClusterServer> server_;
  std::unique_ptr<Launcher> launcher_;
};

// Thread-safe after start(). The destructor ends the requests and the workers.
class InferenceService {
 public:
  // Returns as soon as workers can join; wait_ready() waits for the group. `model` outlives the
  // result.
  static absl::StatusOr<std::unique_ptr<InferenceService>> start(const Model* model,
                                                                 ServiceOptions options);

  Engine& engine() { return *engine_; }
  const Model& model() const { return *model_; }
  const ServiceOptions& options() const { return options_; }
  const std::string& cluster_address() const { return host_->address(); }
  const Cluster& cluster() const { return host_->cluster(); }
  // Null if workers are not started here.
  const Launcher* launcher() const { return host_->launcher(); }
  absl::Status wait_ready() { return engine_->wait_ready(); }
  // Makes wait_ready() return and ends the requests in flight. Any thread, does not block.
  void stop() { engine_->stop(); }

 private:
  InferenceService() = default;

  const Model* model_ = nullptr;
  ServiceOptions options_;
  std::unique_ptr<ClusterHost> host_;
  std::unique_ptr<Engine> engine_;  // Destroyed first: this ends the streams and the epoch.
};

}  // namespace lockstep
