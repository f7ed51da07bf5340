// SPDX-License-Identifier: Apache-2.0
// `lockstep serve`: the coordinator with its public ports, and local workers unless it waits for
// others.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "base/log.h"
#include "base/status.h"
#include "base/threads/wait.h"
#include "coordinator/engine/request_log.h"
#include "coordinator/streams/resumable_index.h"
#include "tools/commands/command.h"
#include "tools/commands/serving/serve_ports.h"

namespace lockstep {
namespace {

struct ServeFlags {
  ServeFlags() { run.service.engine.max_outage_ms = 600'000; }

  RunOptions run;
  PortFlags ports;
  int wait_workers = 0;
  int drain_seconds = 120;
  bool no_prefix_cache = false;
  bool share_prefixes = false;
  std::string metrics_prefix = "lockstep";
  ResumableOptions resumable;
};

absl::StatusOr<ServiceOptions> service_options(const ServeFlags& flags) {
  RunOptions run = flags.run;
  ServiceOptions& given = run.service;
  // Without keys clients cannot be distinguished: one client may have many connections.
  const bool shared = flags.share_prefixes || flags.ports.api_keys.empty();
  given.engine.prefix = {.enabled = !flags.no_prefix_cache, .shared = shared};
  given.cluster.launch = flags.wait_workers == 0;
  ASSIGN_OR_RETURN(ServiceOptions options, run.service_options());
  std::string& address = options.server.address;
  if (flags.wait_workers > 0) {
    options.cluster.workers = flags.wait_workers;
    if (address.empty()) address = "127.0.0.1:50052";
  }
  if (address.empty()) return options;
  RETURN_IF_ERROR(check_address("--cluster", address));
  const char* token = std::getenv("LOCKSTEP_JOIN_TOKEN");
  options.server.token = token != nullptr ? token : "";
  if (!options.server.token.empty()) RETURN_IF_ERROR(check_join_token(options.server.token));
  return options;
}

std::string check_metrics_prefix(const std::string& prefix) {
  const auto belongs = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  const bool good = !prefix.empty() && !std::isdigit(static_cast<unsigned char>(prefix[0])) &&
                    std::ranges::all_of(prefix, belongs);
  return good ? "" : "letters, digits and _, e.g. vllm";
}

// Logs how many of the expected workers have joined, until it is destroyed.
std::jthread log_joined_workers(const Log& log, const Cluster& cluster, int wanted) {
  return std::jthread([&log, &cluster, wanted](const std::stop_token& stop) {
    int64_t said = 0;
    do {
      const std::vector<WorkerState> workers = cluster.workers();
      const int64_t joined = std::ranges::count_if(
          workers, [](const WorkerState& one) { return one.role != WorkerState::Role::kSpare; });
      if (joined != said && joined < wanted) {
        log.announce(fmt::format("{} of {} workers have joined", joined, wanted));
      }
      said = joined;
    } while (wait(std::chrono::milliseconds(200), stop));
  });
}

absl::Status wait_end(const ServeFlags& flags, InferenceService& service, const Log& log) {
  std::jthread joining;
  if (flags.wait_workers > 0) {
    joining = log_joined_workers(log, service.cluster(), flags.wait_workers);
  }
  RETURN_IF_ERROR(service.engine().wait_ready());
  joining = {};
  log.announce("ready; Ctrl-C ends it");
  return service.engine().wait_end();
}

absl::Status serve(const ServeFlags& flags, Interrupt& interrupt) {
  std::signal(SIGPIPE, SIG_IGN);  // If the log's reader has ended, a write must only fail.
  RETURN_IF_ERROR(check_cluster_tls(flags.run.service.server.tls));
  RETURN_IF_ERROR(flags.ports.check(flags.run.service.server));
  // The engine's thread must not wait for the log's reader.
  ASSIGN_OR_RETURN(const LogFormat format, log_format_of(flags.run.worker.log_format));
  const Log log({.format = format, .background = true});
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, flags.run.open());
  if (model->tokenizer() == nullptr) {
    spdlog::warn("{}: prompts are token ids, and answers have no text", model->without_tokenizer());
  }
  ASSIGN_OR_RETURN(ServiceOptions options, service_options(flags));
  const int workers = options.cluster.workers;
  EngineMetrics metrics(flags.metrics_prefix, model->name());
  TraceRecorder recorder;
  RequestLog request_log;
  QueueTimes queue(options.engine.max_outage_ms);
  std::vector<EngineObserver*> watching = {&metrics, &request_log, &queue};
  if (flags.ports.admin_address != "off") watching.push_back(&recorder);
  EngineObservers observers(std::move(watching));
  options.engine.observer = &observers;
  ResumableStreams resumable(flags.resumable);
  ASSIGN_OR_RETURN(const std::unique_ptr<InferenceService> service,
                   InferenceService::start(model.get(), std::move(options)));
  // Ports answer at once, as not ready, so that probes see a process that is starting.
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ServedPorts> ports,
      ServedPorts::start(
          {.model = model.get(),
           .engine = &service->engine(),
           .workers = workers,
           .resumable = flags.resumable.max_bytes > 0 ? &resumable : nullptr,
           .queue = &queue},
          {.metrics = &metrics, .recorder = &recorder, .log = &log, .cluster = &service->cluster()},
          flags.ports));
  log.announce(fmt::format(
      "{} on {}: {}{}, loading", model->name(), count_of(workers, "worker"), ports->names(),
      flags.wait_workers > 0
          ? fmt::format(", workers are awaited at {}", service->cluster_address())
          : ""));
  if (const std::string parsers = ports->parsers(); !parsers.empty()) log.announce(parsers);
  Engine& engine = service->engine();
  const auto drain = [&] {
    log.announce(fmt::format("ending; requests have {} s to finish, a second signal ends them",
                             flags.drain_seconds));
    engine.drain(std::chrono::seconds(flags.drain_seconds));
    ports->drain();
  };
  Interrupt::Actions on_signal = interrupt.on_signal(drain, [&] { engine.stop(); });
  const absl::Status status = wait_end(flags, *service, log);
  const bool signalled = interrupt.signalled();
  on_signal.reset();
  engine.stop();  // Requests that were not drained in time end with CANCELLED.
  ports->finish();
  return signalled ? absl::OkStatus() : status;
}

// All flags except those of ports, model and group.
std::vector<Flag> flags_of_serving(ServeFlags& flags) {
  return {
      {"--no-prefix-cache", &flags.no_prefix_cache,
       "Do not keep computed prompts for later requests whose prompts begin with the same tokens"},
      {"--share-prefixes", &flags.share_prefixes,
       "Let clients with different API keys use each other's cached prompts (without --api-keys "
       "all clients do); a client that measures times can then find out the prompts of others"},
      {"--drain-seconds", &flags.drain_seconds,
       "The time in seconds that running requests may continue after SIGTERM or Ctrl-C",
       FlagValues{.min = 0, .max = 86'400}},
      {"--resume-bytes", &flags.resumable.max_bytes,
       "Memory for all answers of resumable requests; 0: requests are not resumable",
       FlagValues{.is_size = true}},
      {"--resume-seconds", &flags.resumable.after_end_ms,
       "The time in seconds that a resumable answer is kept after its end",
       FlagValues{.min = 1, .max = 86'400, .unit = 1'000}},
      {"--wait-workers", &flags.wait_workers,
       "Start no workers: wait until this number of `lockstep worker` processes have joined",
       FlagValues{.min = 0}},
      {"--cluster", &flags.run.service.server.address,
       "The address where workers join (default with --wait-workers: 127.0.0.1:50052)",
       FlagValues{.form = "HOST:PORT"}},
      {"--metrics-prefix", &flags.metrics_prefix,
       "The prefix of the metrics' names; vllm: the names that vLLM uses",
       FlagValues{.check = check_metrics_prefix}},
      {"--log-format", &flags.run.worker.log_format,
       "The form of the log: text, or json, where each line is one object",
       FlagValues{.form = "text|json"}},
  };
}

}  // namespace

std::shared_ptr<Command> add_serve(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<ServeFlags>();
  CLI::App& app =
      *(command->app = parent.add_subcommand(
            "serve",
            "Serves MODEL over HTTP (OpenAI's API, a page at /, metrics, probes) and gRPC\n"
            "(lockstep.v1.Generation, health, reflection).\n"
            "Starts its workers on this machine, or waits for others with "
            "--wait-workers."));
  RunOptions& run = flags->run;
  add_flags(app, run.model_flags());
  add_chat_flags(app, run.model);
  add_flags(app, run.group_flags());
  add_flags(app, flags->ports.flags());
  add_flags(app, run.model.serve_flags());
  add_flags(app, run.service.engine.serve_flags());
  add_flags(app, flags_of_serving(*flags));
  add_flags(app, cluster_tls_flags(run.service.server.tls));
  read_environment(app);
  command->run = [flags](Interrupt& interrupt) { return serve(*flags, interrupt); };
  return command;
}

}  // namespace lockstep
