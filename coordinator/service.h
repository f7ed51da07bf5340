// SPDX-License-Identifier: Apache-2.0
// Everything that answers requests, put together: cluster server, local workers, engine. `serve`,
// `generate` and `bench` are thin around it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/cluster/launcher.h"
#include "coordinator/cluster/remote_cluster.h"
#include "coordinator/engine.h"
#include "coordinator/model.h"

namespace lockstep {

struct ServiceOptions {
  int workers = 1;     // Ranks of the group.
  bool launch = true;  // Start them here; else they are awaited at `cluster_address`.
  int threads = 1;     // Of each local worker.
  bool pin = true;     // See LauncherOptions.
  // Where workers dial in, "host:port"; "": a private Unix socket, for local workers only.
  std::string cluster_address;
  std::string token;  // "": drawn, for local workers.
  int64_t kv_memory_bytes = 0;
  std::string log_level = "warning";
  EngineOptions engine;
  std::function<void(int64_t done, int64_t total)> load_progress;
};

// Thread-safe once started. Destroying it ends the requests and the workers.
class InferenceService {
 public:
  // Returns as soon as workers can join; wait_ready() waits for the group. `model` outlives it.
  static absl::StatusOr<std::unique_ptr<InferenceService>> start(const Model* model,
                                                                 ServiceOptions options);
  ~InferenceService();

  Engine& engine() { return *engine_; }
  const Model& model() const { return *model_; }
  const ServiceOptions& options() const { return options_; }
  const std::string& cluster_address() const { return cluster_address_; }
  // Null where workers are not started here.
  const Launcher* launcher() const { return launcher_.get(); }
  absl::Status wait_ready() { return engine_->wait_ready(); }
  // Makes wait_ready() return and ends the requests in flight. Any thread, does not block.
  void stop() { cluster_->shutdown(); }

 private:
  InferenceService() = default;
  absl::Status listen();

  const Model* model_ = nullptr;
  ServiceOptions options_;
  std::string socket_folder_;
  std::string cluster_address_;
  std::unique_ptr<RemoteCluster> cluster_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Launcher> launcher_;
  std::unique_ptr<Engine> engine_;
};

// Options that every server of ours wants: no shared ports, keepalive, message sizes.
void set_server_options(grpc::ServerBuilder& builder);
// Binds and starts, or kInvalidArgument naming the address: "port 8080 is in use ...".
absl::StatusOr<std::unique_ptr<grpc::Server>> start_server(grpc::ServerBuilder& builder,
                                                           const std::string& address, int* port);

}  // namespace lockstep
