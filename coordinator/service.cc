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

// Of a worker: the logits of every output of a step, with what comes beside them, and values.
int max_worker_message(const Model& model) {
  const int64_t outputs = std::min(model.options().max_sequences, model.options().max_rows);
  const int64_t vocab = model.config().vocab_size;
  const int64_t logits = vocab * static_cast<int64_t>(sizeof(float));
  constexpr int64_t kBeside = 128 << 10;  // Candidates, sums of blocks, names.
  const int64_t bytes = (outputs + 1) * (2 * logits + kBeside) + kMaxValueBytes;
  return static_cast<int>(std::min<int64_t>(bytes, INT32_MAX));
}

ClusterCoreOptions core_options(const Model& model, const ServiceOptions& options) {
  ClusterCoreOptions core{
      .workers = options.workers,
      .min_workers = options.min_workers,
      .launch = options.launch,
      .silent_ms = options.silent_ms,
      .stuck_ms = options.stuck_ms,
      .grace_ms = options.grace_ms,
      .regrow_ms = options.regrow_ms,
      .speeds = options.speeds,
      .measured_speeds = model.options().strategy == Strategy::kGather,
      .compile =
          [&model](std::vector<WorkerFacts> workers) { return model.compile(std::move(workers)); },
      .draw_group_name = random_name,
      .draw_data_key = draw_nonce};
  cluster::Assignment& assignment = core.assignment;
  assignment.set_checkpoint(std::filesystem::absolute(model.folder()).string());
  assignment.set_random_weights(model.options().random_weights.has_value());
  assignment.set_random_seed(model.options().random_weights.value_or(0));
  assignment.set_embedding_in_file(model.options().embedding_in_file);
  assignment.set_kv_memory_bytes(options.kv_memory_bytes);
  assignment.set_max_pages(options.max_pages > 0 ? options.max_pages : model.max_pages());
  return core;
}

LauncherOptions launcher_options(const ServiceOptions& options, const std::string& address,
                                 const std::string& token) {
  return {.workers = options.workers,
          .threads = options.threads,
          .pin = options.pin,
          .devices = options.devices,
          .fast = options.fast,
          .memory_fraction = options.memory_fraction,
          .coordinator = address,
          .tls = options.cluster_tls,
          .token = token,
          .log_level = options.log_level,
          .log_format = options.log_format,
          .weight_cache = options.weight_cache,
          .weight_cache_limit = options.weight_cache_limit};
}

}  // namespace

absl::Status ClusterHost::listen(const Model& model, const ServiceOptions& service,
                                 const std::string& token) {
  ClusterServerOptions options{.address = service.cluster_address,
                               .token = token,
                               .tls = service.cluster_tls,
                               .max_message_bytes = max_worker_message(model)};
  if (options.address.empty()) {
    // A socket without a file: nobody can take the name first, nor clean the file away.
    options.address = fmt::format("unix-abstract:lockstep-{}", to_hex(draw_nonce()));
  }
  ASSIGN_OR_RETURN(server_, ClusterServer::start(options, cluster_.get()));
  address_ = server_->address();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ClusterHost>> ClusterHost::start(const Model* model,
                                                                const ServiceOptions& options) {
  // What the user can fix is said before anything is started.
  ASSIGN_OR_RETURN(std::vector<WorkerFacts> workers, alike_workers(options.workers));
  RETURN_IF_ERROR(model->compile(std::move(workers)).status());
  if (options.min_workers > options.workers) {
    return invalid_argument("--min-workers {}: wanted {}, as --workers, or fewer",
                            options.min_workers, options.workers);
  }
  const auto speeds = static_cast<int>(options.speeds.size());
  if (speeds > 0 && speeds != options.workers) {
    return invalid_argument("--speeds: wanted one for each of the {} workers, found {}",
                            options.workers, speeds);
  }
  if (!options.cluster_address.empty() && options.token.empty()) {
    return invalid_argument(
        "LOCKSTEP_JOIN_TOKEN is not set: workers that join at {} have to know it; set it for them "
        "and for this command, e.g. to what `openssl rand -hex 16` prints",
        options.cluster_address);
  }
  const std::string token = options.token.empty() ? to_hex(draw_nonce()) : options.token;
  std::unique_ptr<ClusterHost> host(new ClusterHost);
  host->cluster_ =
      std::make_unique<RemoteCluster>(core_options(*model, options), options.load_progress);
  RETURN_IF_ERROR(host->listen(*model, options, token));
  if (options.launch) {
    host->launcher_ = std::make_unique<Launcher>(launcher_options(options, host->address_, token),
                                                 host->cluster_.get());
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
