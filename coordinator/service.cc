// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service.h"

#include <algorithm>
#include <filesystem>

#include "base/status.h"
#include "proto/handshake.h"
#include "proto/step_values.h"

namespace lockstep {
namespace {

std::string random_name() { return to_hex(draw_nonce().substr(0, 16)); }

// The max bytes of a worker's message: logits and other fields of every output, and values.
int max_worker_message(const Model& model) {
  const int64_t outputs = std::min(model.options().max_sequences, model.options().max_rows);
  const int64_t vocab = model.config().vocab_size;
  const int64_t logits = vocab * static_cast<int64_t>(sizeof(float));
  constexpr int64_t kOtherFieldsBytes = 128 << 10;  // Per output.
  const int64_t bytes = (outputs + 1) * (2 * logits + kOtherFieldsBytes) + kMaxValueBytes;
  return static_cast<int>(std::min<int64_t>(bytes, INT32_MAX));
}

ClusterCoreOptions core_options(const Model& model, ClusterCoreOptions core) {
  core.measured_speeds = model.options().strategy == Strategy::kGather;
  core.compile = [&model](std::vector<WorkerFacts> workers) {
    return model.compile(std::move(workers));
  };
  core.draw_group_name = random_name;
  core.draw_data_key = draw_nonce;
  cluster::Assignment& assignment = core.assignment;
  assignment.set_checkpoint(std::filesystem::absolute(model.folder()).string());
  assignment.set_random_weights(model.options().random_weights.has_value());
  assignment.set_random_seed(model.options().random_weights.value_or(0));
  assignment.set_embedding_in_file(model.options().embedding == "file");
  assignment.set_kv_memory_bytes(core.kv_memory_bytes);
  if (assignment.max_pages() == 0) assignment.set_max_pages(model.max_pages());
  return core;
}

}  // namespace

absl::Status ClusterHost::listen(const Model& model, ClusterServerOptions options) {
  options.max_message_bytes = max_worker_message(model);
  if (options.address.empty()) {
    // An abstract socket with a random name: no other process can take the name first, and there is
    // no file that could be deleted.
    options.address = fmt::format("unix-abstract:lockstep-{}", to_hex(draw_nonce()));
  }
  ASSIGN_OR_RETURN(server_, ClusterServer::start(options, cluster_.get()));
  address_ = server_->address();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ClusterHost>> ClusterHost::start(const Model* model,
                                                                const ServiceOptions& options) {
  const ClusterCoreOptions& cluster = options.cluster;
  // Errors that the user can fix are reported before anything is started.
  ASSIGN_OR_RETURN(std::vector<WorkerFacts> workers, alike_workers(cluster.workers));
  RETURN_IF_ERROR(model->compile(std::move(workers)).status());
  if (cluster.min_workers > cluster.workers) {
    return invalid_argument("--min-workers: must be {} (--workers) or fewer, found {}",
                            cluster.workers, cluster.min_workers);
  }
  if (cluster.stuck_ms < cluster.silent_ms) {
    return invalid_argument("--stuck-ms: must be {} (--silent-ms) or more, found {}",
                            cluster.silent_ms, cluster.stuck_ms);
  }
  const auto speeds = static_cast<int>(cluster.speeds.size());
  if (speeds > 0 && speeds != cluster.workers) {
    return invalid_argument("--speeds: must be one for each of the {} workers, found {}",
                            cluster.workers, speeds);
  }
  ClusterServerOptions server = options.server;
  if (!server.address.empty() && server.token.empty()) {
    return invalid_argument(
        "LOCKSTEP_JOIN_TOKEN: must be set, found none; workers that join at {} must know it: set "
        "it for them and for this command, e.g. to the output of `openssl rand -hex 16`",
        server.address);
  }
  if (server.token.empty()) server.token = to_hex(draw_nonce());
  std::unique_ptr<ClusterHost> host(new ClusterHost);
  host->cluster_ =
      std::make_unique<RemoteCluster>(core_options(*model, cluster), options.load_progress);
  RETURN_IF_ERROR(host->listen(*model, server));
  if (cluster.launch) {
    LauncherOptions launch{.workers = cluster.workers,
                           .arguments = options.worker_arguments,
                           .coordinator = host->address_,
                           .token = server.token};
    host->launcher_ = std::make_unique<Launcher>(std::move(launch), host->cluster_.get());
  }
  host->cluster_->run(host->server_.get(), host->launcher_.get());
  return host;
}

ClusterHost::~ClusterHost() {
  if (cluster_ != nullptr) cluster_->stop();
  launcher_.reset();  // Ends the workers.
  server_.reset();
}

absl::StatusOr<std::unique_ptr<InferenceService>> InferenceService::start(const Model* model,
                                                                          ServiceOptions options) {
  std::unique_ptr<InferenceService> service(new InferenceService);
  service->model_ = model;
  service->options_ = std::move(options);
  const ServiceOptions& chosen = service->options_;
  ASSIGN_OR_RETURN(service->host_, ClusterHost::start(model, chosen));
  service->engine_ =
      std::make_unique<Engine>(&service->host_->cluster(), model->tokenizer(), chosen.engine);
  return service;
}

}  // namespace lockstep
