// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/status.h"

namespace lockstep {
namespace {

std::string random_token() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

// A folder that only this user can enter, for the workers' socket.
absl::StatusOr<std::string> make_private_folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::string path = fmt::format("{}/lockstep-XXXXXX", runtime != nullptr ? runtime : "/tmp");
  if (mkdtemp(path.data()) == nullptr) {
    path = "/tmp/lockstep-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) {
      return failed_precondition("could not make a folder in /tmp for the workers' socket: {}",
                                 std::strerror(errno));
    }
  }
  return path;
}

}  // namespace

void set_server_options(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 2000);
}

absl::StatusOr<std::unique_ptr<grpc::Server>> start_server(grpc::ServerBuilder& builder,
                                                           const std::string& address, int* port) {
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), port);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || (port != nullptr && *port == 0)) {
    return invalid_argument(
        "could not listen on {}: the port is in use, or the address is not this machine's; choose "
        "another",
        address);
  }
  return server;
}

absl::Status ClusterHost::listen(const std::string& wanted) {
  grpc::ServerBuilder builder;
  set_server_options(builder);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(cluster_->service());
  int port = 0;
  if (wanted.empty()) {
    ASSIGN_OR_RETURN(socket_folder_, make_private_folder());
    address_ = fmt::format("unix:{}/cluster", socket_folder_);
    ASSIGN_OR_RETURN(server_, start_server(builder, address_, nullptr));
  } else {
    ASSIGN_OR_RETURN(server_, start_server(builder, wanted, &port));
    const size_t colon = wanted.rfind(':');
    address_ = fmt::format("{}:{}", wanted.substr(0, colon), port);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ClusterHost>> ClusterHost::start(const Model* model,
                                                                const ServiceOptions& options) {
  // The user's errors are said before anything is started.
  ASSIGN_OR_RETURN(std::vector<WorkerFacts> workers, alike_workers(options.workers));
  RETURN_IF_ERROR(model->compile(std::move(workers)).status());
  const bool draw = options.token.empty() && options.launch;
  const std::string token = draw ? random_token() : options.token;

  std::unique_ptr<ClusterHost> host(new ClusterHost);
  host->cluster_ = std::make_unique<RemoteCluster>(RemoteClusterOptions{
      .workers = options.workers,
      .token = token,
      .checkpoint = std::filesystem::absolute(model->folder()).string(),
      .random_weights = model->options().random_weights.has_value(),
      .random_seed = model->options().random_weights.value_or(0),
      .embedding_in_file = model->options().embedding_in_file,
      .kv_memory_bytes = options.kv_memory_bytes,
      .max_pages = options.max_pages > 0 ? options.max_pages : model->max_pages(),
      .compile =
          [model](std::vector<WorkerFacts> workers) { return model->compile(std::move(workers)); },
      .progress = options.load_progress});
  RETURN_IF_ERROR(host->listen(options.cluster_address));
  if (options.launch) {
    RemoteCluster* cluster = host->cluster_.get();
    host->launcher_ = std::make_unique<Launcher>(
        LauncherOptions{.workers = options.workers,
                        .threads = options.threads,
                        .pin = options.pin,
                        .devices = options.devices,
                        .memory_fraction = options.memory_fraction,
                        .coordinator = host->address_,
                        .token = token,
                        .log_level = options.log_level,
                        .weight_cache = options.weight_cache,
                        .weight_cache_limit = options.weight_cache_limit},
        [cluster](absl::Status reason) { cluster->give_up(std::move(reason)); });
  }
  return host;
}

ClusterHost::~ClusterHost() {
  launcher_.reset();  // Ends the workers.
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
    server_->Wait();
  }
  server_.reset();
  cluster_.reset();
  if (!socket_folder_.empty()) {
    std::error_code error;
    std::filesystem::remove_all(socket_folder_, error);
  }
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
