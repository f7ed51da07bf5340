// SPDX-License-Identifier: Apache-2.0
// `lockstep worker`: one rank, connected to a coordinator.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/cpu.h"
#include "base/log.h"
#include "base/status.h"
#include "base/topology.h"
#include "tools/commands/command.h"
#include "worker/backend.h"
#include "worker/main.h"

namespace lockstep {
namespace {

// As many as threads: they are named in the order of their ids.
absl::Status read_processors(const std::string& text, WorkerMainOptions* options) {
  if (text.empty()) return absl::OkStatus();
  const auto ids = parse_processors(text);
  const std::vector<int> usable = thread_processors();
  if (!ids || !std::includes(usable.begin(), usable.end(), ids->begin(), ids->end())) {
    return invalid_argument("--processors {}: wanted some of {}, e.g. 0-3,8", text,
                            processors_text(usable));
  }
  const int count = static_cast<int>(ids->size());
  if (options->threads == 0) options->threads = count;
  if (options->threads > count) {
    return invalid_argument("--processors {}: wanted one for each of the {} threads, found {}",
                            text, options->threads, count);
  }
  options->processors = *ids;
  return absl::OkStatus();
}

// What a group that spans hosts needs.
void add_hosts(CLI::App& app, WorkerMainOptions& options, std::vector<std::string>& insecure) {
  app.add_option("--data-listen", options.data_listen,
                 "ADDRESS:PORT where ranks of other hosts connect; port 0 takes a free one, off "
                 "opens none (default: with --cluster-cert or --insecure cluster a free one at the "
                 "address by which the coordinator is reached)");
  app.add_option("--host-name", options.host_name,
                 "Workers with different names count as on different hosts");
  app.add_option("--insecure", insecure,
                 "cluster: other machines may reach the data port without --cluster-cert")
      ->delimiter(',')
      ->allow_extra_args(false);
}

absl::Status check_hosts(const std::vector<std::string>& insecure, WorkerMainOptions* options) {
  for (const std::string& name : insecure) {
    if (name != "cluster") return invalid_argument("--insecure {}: want cluster", name);
    options->insecure = true;
  }
  constexpr size_t kMaxHostName = 64;
  if (options->host_name.size() > kMaxHostName) {
    return invalid_argument("--host-name: wanted at most {} bytes, found {}", kMaxHostName,
                            options->host_name.size());
  }
  return absl::OkStatus();
}

void add_device(CLI::App& app, std::string& device, WorkerMainOptions& options) {
  app.add_option("--device", device,
                 "What to compute on: cpu, cuda (the GPU whose number is --rank), cuda:N, auto")
      ->capture_default_str();
  app.add_flag("--fast", options.fast,
               "Compute in the GPU's fast numeric class, as all ranks of a group must; "
               "`serve --fast` says what that means");
}

// Each of several workers on one host takes its own GPU, by rank.
absl::Status choose_device(const std::string& wanted, WorkerMainOptions* options) {
  const Gpus gpus = wanted == "cpu" ? Gpus() : find_gpus();
  const int index = std::max(0, options->preferred_rank);
  const int before = gpus.devices.empty() ? 0 : index % static_cast<int>(gpus.devices.size());
  ASSIGN_OR_RETURN(const std::vector<std::string> devices,
                   devices_of_workers(wanted, before + 1, gpus));
  options->device = devices.back();
  return check_class({&options->device, 1}, options->fast);
}

}  // namespace

std::shared_ptr<Command> add_worker(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto options = std::make_shared<WorkerMainOptions>();
  auto processors = std::make_shared<std::string>();
  auto device = std::make_shared<std::string>("auto");
  auto log_level = std::make_shared<std::string>("info");
  auto log_format = std::make_shared<std::string>("text");
  command->app = parent.add_subcommand(
      "worker",
      "One worker process: joins the coordinator, receives a slice of the model and runs it.\n"
      "The join token is read from LOCKSTEP_JOIN_TOKEN.");
  options->threads = 0;
  command->app->add_option("--coordinator", options->coordinator, "HOST:PORT of `lockstep serve`")
      ->required();
  command->app->add_option("--threads", options->threads, "Threads (default: all usable cores)");
  command->app->add_option("--processors", *processors,
                           "Processors that the threads are bound to, one each, e.g. 0-3,8 "
                           "(default: none)");
  add_device(*command->app, *device, *options);
  add_memory_fraction(*command->app, options->memory_fraction);
  add_cluster_tls(*command->app, options->tls);
  auto insecure = std::make_shared<std::vector<std::string>>();
  add_hosts(*command->app, *options, *insecure);
  command->app->add_option("--rank", options->preferred_rank,
                           "Rank to ask for (default: any that is free)");
  command->app->add_flag("--spare", options->spare,
                         "Hold a rank's weights until its worker is lost, and take its place");
  command->app
      ->add_option("--speed", options->speed,
                   "How fast it is beside the others, which say so, too: one with 8 gets twice the "
                   "part of one with 4 (default: as fast as it reads memory)")
      ->check(CLI::Range(1e-6, 1e15));
  auto weight_cache = std::make_shared<WeightCacheFlags>();
  weight_cache->add_to(*command->app);
  command->app->add_option("--parent-pid", options->parent_pid)->group("");
  command->app->add_option("--log-level", *log_level, "debug, info, warning or error")
      ->capture_default_str();
  add_log_format(*command->app, *log_format);
  command->run = [options, insecure, processors, device, log_level, log_format, weight_cache,
                  shared = command.get()](Interrupt& interrupt) -> absl::Status {
    std::stop_source stop;
    options->stop = stop.get_token();
    interrupt.on_signal([stop]() mutable { stop.request_stop(); });
    // The terminal sends Ctrl-C to all its processes: what it means is the launcher's affair.
    if (options->parent_pid != 0) interrupt.on_ctrl_c([] {});
    RETURN_IF_ERROR(set_log_level(*log_level));
    ASSIGN_OR_RETURN(const LogFormat format, log_format_of(*log_format));
    const Log log({.format = format});
    if (options->threads < 0 || options->threads > 1024) {
      return invalid_argument("--threads {}: wanted 1 to 1024", options->threads);
    }
    if (!std::isfinite(options->speed)) {
      return invalid_argument("--speed {}: wanted a finite number", options->speed);
    }
    RETURN_IF_ERROR(check_hosts(*insecure, options.get()));
    RETURN_IF_ERROR(read_processors(*processors, options.get()));
    if (options->threads == 0) options->threads = usable_cores();
    RETURN_IF_ERROR(check_cluster_tls(options->tls));
    RETURN_IF_ERROR(check_memory_fraction(options->memory_fraction));
    RETURN_IF_ERROR(choose_device(*device, options.get()));
    options->weight_cache = packed_cache_options(weight_cache->choice, weight_cache->limit_bytes);
    const char* token = std::getenv("LOCKSTEP_JOIN_TOKEN");
    options->token = token != nullptr ? token : "";
    shared->exit_code = worker_main(*options);
    return absl::OkStatus();
  };
  return command;
}

}  // namespace lockstep
