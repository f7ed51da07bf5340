// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/command.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/status.h"
#include "base/system/cpu.h"
#include "base/system/topology.h"
#include "tools/terminal.h"
#include "worker/backend.h"

namespace lockstep {

int threads_of_machine() {
  return default_threads(best_isa(), usable_cores(), locate_processors(thread_processors()));
}

absl::StatusOr<std::unique_ptr<Model>> open_model(const ModelOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::open(options));
  for (const std::string& warning : model->warnings()) {
    spdlog::warn("{}: {}", model->name(), warning);
  }
  return model;
}

namespace {

// The CPUs to which the worker's threads are pinned. Under a CPU quota, none: other processes share
// the CPUs and may be pinned to the same ones.
std::vector<int> processors_for(int workers, int threads, int index) {
  const std::vector<int> usable = thread_processors();
  if (usable_cores() < static_cast<int>(usable.size())) return {};
  return processors_of_worker(locate_processors(usable), workers, threads, index);
}

}  // namespace

RunOptions::RunOptions() {
  service.cluster.launch = true;
  service.engine.prefill_chunk = 0;  // auto
  worker.log_level = "warning";
}

std::vector<Flag> RunOptions::model_flags() {
  const std::vector<Flag> cut = {
      {"--strategy", &strategy,
       "How matrices are sharded: gather (the same bits for any number of workers) or reduce (less "
       "communication; the bits depend on the number of workers); default: gather, or reduce if "
       "--fast is given",
       FlagValues{.words = {"", "gather", "reduce"}}},
      {"--fast", &worker.fast,
       "GPUs compute in their fast numeric class: each uses the fastest kernels, and the bits of a "
       "request may depend on other requests"},
  };
  return join(join(model.flags(), cut), service.engine.flags());
}

std::vector<Flag> RunOptions::group_flags() {
  const std::vector<Flag> local = {
      {"--threads", &worker.threads,
       "Threads of each worker (default: the number of usable cores divided by the number of "
       "workers; with AMX only physical cores count)",
       FlagValues{.min = 0, .max = 1024}},
      {"--no-pin", &no_pin,
       "Let the system move threads between CPUs (default: each thread is pinned to one CPU if "
       "there are enough CPUs)"},
      {"--device", &worker.device,
       "The device of workers: cpu; cuda (one GPU per worker); cuda:N (GPU N for all workers); "
       "auto (cuda if there is a GPU for each worker, else cpu)",
       FlagValues{.form = "cpu|cuda|cuda:N|auto"}},
  };
  return join(join(service.cluster.flags(), local), worker.shared_flags());
}

absl::StatusOr<std::unique_ptr<Model>> RunOptions::open(WeightFiles files) const {
  ModelOptions options = model;
  options.weight_files = files;
  const bool reduces = strategy.empty() ? worker.fast : strategy == "reduce";
  options.strategy = reduces ? Strategy::kReduce : Strategy::kGather;
  options.max_rows = prefill_chunk() + service.engine.max_running;
  options.max_sequences = service.engine.max_running;
  return open_model(options);
}

int64_t RunOptions::prefill_chunk() const {
  if (service.engine.prefill_chunk > 0) return service.engine.prefill_chunk;
  const auto chosen = devices();
  return chosen.ok() && chosen->front() != "cpu" ? kGpuChunk : kChunk;
}

int RunOptions::threads() const {
  if (worker.threads > 0) return worker.threads;
  return std::max(1, threads_of_machine() / service.cluster.workers);
}

absl::StatusOr<std::vector<std::string>> RunOptions::devices() const {
  const Gpus gpus = worker.device == "cpu" ? Gpus() : find_gpus();
  return devices_of_workers(worker.device, service.cluster.workers, gpus);
}

absl::StatusOr<ServiceOptions> RunOptions::service_options() const {
  RETURN_IF_ERROR(set_log_level(worker.log_level));
  ServiceOptions options = service;
  const int workers = options.cluster.workers;
  ASSIGN_OR_RETURN(const std::vector<std::string> chosen, devices());
  const size_t gpus = worker.device == "cpu" ? 0 : find_gpus().devices.size();
  if (chosen[0] == "cpu" && gpus > 0) {
    spdlog::warn("{} GPUs were found and are not used: too few for {} workers, or too old", gpus,
                 workers);
  }
  if (options.cluster.launch) RETURN_IF_ERROR(check_class(chosen, worker.fast));
  options.engine.prefill_chunk = prefill_chunk();
  WorkerProcessOptions local = worker;
  local.threads = threads();
  local.tls = options.server.tls;
  options.worker_arguments = [local, chosen, workers, pin = !no_pin](int index) mutable {
    local.device = chosen[index];
    local.processors =
        pin ? processors_text(processors_for(workers, local.threads, index)) : std::string();
    return arguments_of(local.flags(), WorkerProcessOptions().flags());
  };
  return options;
}

void add_chat_flags(CLI::App& app, ModelOptions& model) {
  add_flags(app, model.chat_flags());
  app.get_option("--template-vars")->allow_extra_args();
}

absl::Status set_log_level(const std::string& name) {
  constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};
  if (std::ranges::count(kNames, name) == 0) {
    return invalid_argument("--log-level: must be debug, info, warning or error, found {}", name);
  }
  spdlog::set_level(spdlog::level::from_str(name));
  return absl::OkStatus();
}

absl::Status check_cluster_tls(TlsFiles tls) {
  if (tls.cert.empty() && tls.key.empty() && tls.ca.empty()) return absl::OkStatus();
  for (const Flag& flag : cluster_tls_flags(tls)) {
    const std::string path = text_of(flag);
    if (path.empty()) {
      return invalid_argument(
          "{}: must be a file, found none; with one of --cluster-cert, --cluster-key and "
          "--cluster-ca give all three",
          flag.name);
    }
    if (access(path.c_str(), R_OK) != 0) {
      return invalid_argument("{}: must be a readable file, found {}: {}", flag.name, path,
                              error_text(errno));
    }
  }
  return absl::OkStatus();
}

void read_environment(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option == app.get_help_ptr() || option->get_group().empty()) continue;
    std::string name = option->get_single_name();  // "drain-seconds", or a positional's "MODEL".
    for (char& c : name) c = c == '-' ? '_' : absl::ascii_toupper(static_cast<unsigned char>(c));
    option->envname("LOCKSTEP_" + name);
  }
  // CLI11 reads the environment variables of all commands, also of those that are not on the
  // command line. CLI11 skips a command that has this callback and was not parsed.
  app.parse_complete_callback([] {});
  app.footer(
      "The environment variable shown beside a flag sets the flag, too. The command line has "
      "precedence.");
}

void ignore_environment(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) option->envname("");
}

absl::StatusOr<std::unique_ptr<InferenceService>> start_service(const Model& model,
                                                                ServiceOptions options,
                                                                Interrupt& interrupt) {
  auto line = std::make_shared<ProgressLine>();
  options.load_progress = [line](int64_t done, int64_t total) {
    line->bar("loading weights", done, total);
    if (done >= total) line->clear();
  };
  // All requests come from this process, which reads the answers one after the other: the queue and
  // unread answers need no bounds.
  options.engine.max_waiting = {kNoBound, kNoBound, kNoBound, kNoBound};
  options.engine.max_unread_bytes = kNoBound;
  ASSIGN_OR_RETURN(std::unique_ptr<InferenceService> service,
                   InferenceService::start(&model, std::move(options)));
  const Interrupt::Actions on_signal = interrupt.on_signal([&] { service->stop(); });
  const absl::Status ready = service->wait_ready();
  line->clear();
  RETURN_IF_ERROR(ready);
  return service;
}

int exit_code_of(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kDataLoss:
      return 2;
    case absl::StatusCode::kCancelled:
      return 130;
    default:
      return 1;
  }
}

}  // namespace lockstep
