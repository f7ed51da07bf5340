// SPDX-License-Identifier: Apache-2.0
// `lockstep worker`: one rank, connected to a coordinator.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/log.h"
#include "base/sockets/address.h"
#include "base/status.h"
#include "base/system/cpu.h"
#include "base/system/topology.h"
#include "coordinator/http/grpc/health_port.h"
#include "tools/commands/command.h"
#include "tools/commands/serving/serve_ports.h"
#include "worker/backend.h"
#include "worker/main.h"

namespace lockstep {
namespace {

constexpr std::chrono::seconds kMaxEnd{5};

// Checks that --processors has at least one for each thread. Threads use them in the order of ids.
absl::Status check_processors(WorkerProcessOptions* options) {
  if (options->processors.empty()) return absl::OkStatus();
  const auto ids = parse_processors(options->processors);
  const std::vector<int> usable = thread_processors();
  if (!ids || !std::includes(usable.begin(), usable.end(), ids->begin(), ids->end())) {
    return invalid_argument("--processors: must be some of {}, e.g. 0-3,8, found {}",
                            processors_text(usable), printable(options->processors));
  }
  const int count = static_cast<int>(ids->size());
  if (options->threads == 0) options->threads = count;
  if (options->threads <= count) return absl::OkStatus();
  return invalid_argument("--processors: must be one for each of the {} threads, found {}",
                          options->threads, count);
}

// Each of several workers on one host takes its own GPU, by rank.
absl::Status choose_device(WorkerProcessOptions* options) {
  const Gpus gpus = options->device == "cpu" ? Gpus() : find_gpus();
  const int index = std::max(0, options->preferred_rank);
  const int before = gpus.devices.empty() ? 0 : index % static_cast<int>(gpus.devices.size());
  ASSIGN_OR_RETURN(const std::vector<std::string> devices,
                   devices_of_workers(options->device, before + 1, gpus));
  options->device = devices.back();
  return check_class({&options->device, 1}, options->fast);
}

// Null: --health is off.
absl::StatusOr<std::unique_ptr<HealthPort>> open_health_port(const std::string& address) {
  if (address == "off") return nullptr;
  RETURN_IF_ERROR(check_address("--health", address));
  absl::StatusOr<std::unique_ptr<HealthPort>> port = HealthPort::start(address);
  if (!port.ok()) return invalid_argument("--health: {}", message_of(port.status()));
  return port;
}

// Ends the process if it still runs kMaxEnd after the signal: a name server or a file system that
// does not answer blocks a thread, and a blocked thread cannot be stopped. Nothing of value is
// lost.
void limit_end() {
  std::thread([] {
    std::this_thread::sleep_for(kMaxEnd);
    spdlog::warn("still not ended {} s after the signal: ending at once", kMaxEnd.count());
    _exit(0);
  }).detach();
}

absl::Status work(WorkerProcessOptions& options, Interrupt& interrupt, int* exit_code) {
  std::stop_source stop;
  options.stop = stop.get_token();
  const Interrupt::Actions on_signal = interrupt.on_signal([stop]() mutable {
    limit_end();
    stop.request_stop();
  });
  // A terminal sends Ctrl-C to all its processes. The process that started this worker handles it
  // for the worker.
  Interrupt::Actions on_ctrl_c{nullptr, nullptr};
  if (options.parent_pid != 0) {
    on_ctrl_c = interrupt.on_ctrl_c([] {});
    std::signal(SIGHUP, SIG_IGN);
  }
  RETURN_IF_ERROR(set_log_level(options.log_level));
  ASSIGN_OR_RETURN(const LogFormat format, log_format_of(options.log_format));
  const Log log({.format = format});
  if (!is_unix_address(options.coordinator)) {
    RETURN_IF_ERROR(check_address("--coordinator", options.coordinator));
  }
  RETURN_IF_ERROR(check_processors(&options));
  if (options.threads == 0) options.threads = threads_of_machine();
  RETURN_IF_ERROR(check_cluster_tls(options.tls));
  const char* token = std::getenv("LOCKSTEP_JOIN_TOKEN");
  options.token = token != nullptr ? token : "";
  if (options.token.empty()) {
    return invalid_argument(
        "LOCKSTEP_JOIN_TOKEN: must be set, found none; use the same value as for `lockstep serve`");
  }
  RETURN_IF_ERROR(check_join_token(options.token));
  ASSIGN_OR_RETURN(const std::unique_ptr<HealthPort> health, open_health_port(options.health));
  if (health != nullptr) {
    spdlog::info("probes at {}", health->address());
    options.on_ready = [port = health.get()](bool ready) { port->set_ready(ready); };
  }
  RETURN_IF_ERROR(choose_device(&options));
  *exit_code = worker_main(options);
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_worker(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto options = std::make_shared<WorkerProcessOptions>();
  command->app = parent.add_subcommand("worker",
                                       "Runs one worker process: it joins the coordinator, loads "
                                       "its slice of the model and computes.\n"
                                       "The join token is read from LOCKSTEP_JOIN_TOKEN.");
  add_flags(*command->app, options->flags());
  command->app->get_option("--coordinator")->required();
  read_environment(*command->app);
  // A process that starts workers passes all their options as arguments. The environment variables
  // are options of that process, not of the workers.
  command->app->get_option("--parent-pid")
      ->trigger_on_parse()
      ->each([app = command->app](const std::string&) { ignore_environment(*app); });
  command->run = [options, shared = command.get()](Interrupt& interrupt) {
    return work(*options, interrupt, &shared->exit_code);
  };
  return command;
}

}  // namespace lockstep
