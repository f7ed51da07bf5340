// SPDX-License-Identifier: Apache-2.0
// `lockstep worker`: one rank, connected to a coordinator.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "base/log.h"
#include "base/sockets/address.h"
#include "base/status.h"
#include "base/system/cpu.h"
#include "base/system/topology.h"
#include "tools/commands/command.h"
#include "tools/commands/flag_checks.h"
#include "tools/commands/serve_ports.h"
#include "worker/backend.h"
#include "worker/main.h"

namespace lockstep {
namespace {

struct WorkerFlags {
  WorkerMainOptions options;
  std::vector<std::string> insecure;
  std::string processors;
  std::string device = "auto";
  std::string log_level = "info";
  std::string log_format = "text";
  WeightCacheFlags weight_cache;
};

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

absl::Status work(WorkerFlags& flags, Interrupt& interrupt, int* exit_code) {
  WorkerMainOptions& options = flags.options;
  std::stop_source stop;
  options.stop = stop.get_token();
  const Interrupt::Actions on_signal =
      interrupt.on_signal([stop]() mutable { stop.request_stop(); });
  // The terminal sends Ctrl-C to all its processes, and tells all that it is gone: what that means
  // is the launcher's affair.
  Interrupt::Actions on_ctrl_c{nullptr, nullptr};
  if (options.parent_pid != 0) {
    on_ctrl_c = interrupt.on_ctrl_c([] {});
    std::signal(SIGHUP, SIG_IGN);
  }
  RETURN_IF_ERROR(set_log_level(flags.log_level));
  ASSIGN_OR_RETURN(const LogFormat format, log_format_of(flags.log_format));
  const Log log({.format = format});
  if (!is_unix_address(options.coordinator)) {
    RETURN_IF_ERROR(check_address("--coordinator", options.coordinator));
  }
  if (options.threads < 0 || options.threads > 1024) {
    return invalid_argument("--threads {}: wanted 1 to 1024", options.threads);
  }
  RETURN_IF_ERROR(check_hosts(flags.insecure, &options));
  RETURN_IF_ERROR(read_processors(flags.processors, &options));
  if (options.threads == 0) options.threads = usable_cores();
  RETURN_IF_ERROR(check_cluster_tls(options.tls));
  const char* token = std::getenv("LOCKSTEP_JOIN_TOKEN");
  options.token = token != nullptr ? token : "";
  if (options.token.empty()) {
    return invalid_argument(
        "LOCKSTEP_JOIN_TOKEN is not set: set it to what it is for `lockstep serve`");
  }
  RETURN_IF_ERROR(check_join_token(options.token));
  RETURN_IF_ERROR(choose_device(flags.device, &options));
  options.weight_cache =
      packed_cache_options(flags.weight_cache.choice, flags.weight_cache.limit_bytes);
  *exit_code = worker_main(options);
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_worker(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<WorkerFlags>();
  WorkerMainOptions& options = flags->options;
  command->app = parent.add_subcommand(
      "worker",
      "One worker process: joins the coordinator, receives a slice of the model and runs it.\n"
      "The join token is read from LOCKSTEP_JOIN_TOKEN.");
  options.threads = 0;
  command->app->add_option("--coordinator", options.coordinator, "HOST:PORT of `lockstep serve`")
      ->required();
  command->app->add_option("--threads", options.threads, "Threads (default: all usable cores)");
  command->app->add_option("--processors", flags->processors,
                           "Processors that the threads are bound to, one each, e.g. 0-3,8 "
                           "(default: none)");
  add_device(*command->app, flags->device, options);
  add_memory_fraction(*command->app, options.memory_fraction);
  add_cluster_tls(*command->app, options.tls);
  add_hosts(*command->app, options, flags->insecure);
  command->app
      ->add_option("--rank", options.preferred_rank, "Rank to ask for (default: any that is free)")
      ->check(whole_number(0, 65'535));
  command->app->add_flag("--spare", options.spare,
                         "Hold a rank's weights until its worker is lost, and take its place");
  command->app
      ->add_option("--speed", options.speed,
                   "How fast it is beside the others, which say so, too: one with 8 gets twice the "
                   "part of one with 4 (default: as fast as it reads memory)")
      ->check(real_number(1e-6, 1e15));
  flags->weight_cache.add_to(*command->app);
  command->app->add_option("--parent-pid", options.parent_pid)->group("");
  command->app->add_option("--log-level", flags->log_level, "debug, info, warning or error")
      ->capture_default_str();
  add_log_format(*command->app, flags->log_format);
  command->run = [flags, shared = command.get()](Interrupt& interrupt) {
    return work(*flags, interrupt, &shared->exit_code);
  };
  return command;
}

}  // namespace lockstep
