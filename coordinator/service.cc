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

absl::Status InferenceService::listen() {
  grpc::ServerBuilder builder;
  set_server_options(builder);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(cluster_->service());
  int port = 0;
  if (options_.cluster_address.empty()) {
    ASSIGN_OR_RETURN(socket_folder_, make_private_folder());
    cluster_address_ = fmt::format("unix:{}/cluster", socket_folder_);
    ASSIGN_OR_RETURN(server_, start_server(builder, cluster_address_, nullptr));
  } else {
    ASSIGN_OR_RETURN(server_, start_server(builder, options_.cluster_address, &port));
    const size_t colon = options_.cluster_address.rfind(':');
    cluster_address_ = fmt::format("{}:{}", options_.cluster_address.substr(0, colon), port);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<InferenceService>> InferenceService::start(const Model* model,
                                                                          ServiceOptions options) {
  // What the user can mend is said before anything is started.
  RETURN_IF_ERROR(model->compile(options.workers).status());
  if (options.token.empty() && options.launch) options.token = random_token();

  std::unique_ptr<InferenceService> service(new InferenceService);
  service->model_ = model;
  service->options_ = std::move(options);
  const ServiceOptions& chosen = service->options_;
  service->cluster_ = std::make_unique<RemoteCluster>(
      RemoteClusterOptions{.workers = chosen.workers,
                           .token = chosen.token,
                           .checkpoint = std::filesystem::absolute(model->folder()).string(),
                           .random_weights = model->options().random_weights.has_value(),
                           .random_seed = model->options().random_weights.value_or(0),
                           .kv_memory_bytes = chosen.kv_memory_bytes,
                           .max_pages = model->max_pages(),
                           .compile = [model](int ranks) { return model->compile(ranks); },
                           .progress = chosen.load_progress});
  RETURN_IF_ERROR(service->listen());
  if (chosen.launch) {
    RemoteCluster* cluster = service->cluster_.get();
    service->launcher_ = std::make_unique<Launcher>(
        LauncherOptions{.workers = chosen.workers,
                        .threads = chosen.threads,
                        .pin = chosen.pin,
                        .coordinator = service->cluster_address_,
                        .token = chosen.token,
                        .log_level = chosen.log_level},
        [cluster](absl::Status reason) { cluster->give_up(std::move(reason)); });
  }
  service->engine_ =
      std::make_unique<Engine>(service->cluster_.get(), model->tokenizer(), chosen.engine);
  return service;
}

InferenceService::~InferenceService() {
  engine_.reset();    // Ends the streams and the epoch.
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

}  // namespace lockstep
