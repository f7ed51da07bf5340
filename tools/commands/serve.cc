// SPDX-License-Identifier: Apache-2.0
// `lockstep serve`: the coordinator with its public port, and local workers unless others are
// awaited.
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
#include "tools/commands/command.h"
#include "tools/commands/flag_checks.h"
#include "tools/commands/serve_ports.h"

namespace lockstep {
namespace {

struct ServeFlags {
  ModelFlags model;
  GroupFlags group;
  PortFlags ports;
  std::string cluster_address;
  TlsFiles cluster_tls;
  int wait_workers = 0;
  int drain_seconds = 120;
  int64_t step_budget_ms = -1;
  bool no_prefix_cache = false;
  bool share_prefixes = false;
  std::string metrics_prefix = "lockstep";
  std::string log_format = "text";
  int64_t resume_bytes = int64_t{256} << 20;
  int resume_seconds = 60;
  int queue_seconds = 600;
};

absl::StatusOr<ServiceOptions> service_options(const ServeFlags& flags) {
  ASSIGN_OR_RETURN(ServiceOptions options,
                   flags.group.service_options(flags.model, flags.wait_workers == 0));
  if (flags.wait_workers < 0) {
    return invalid_argument("--wait-workers {}: wanted 1 or more", flags.wait_workers);
  }
  options.engine.step_budget_ms = flags.step_budget_ms;
  // Without keys nobody is told apart: the connections of one client are many.
  const bool shared = flags.share_prefixes || flags.ports.api_keys.empty();
  options.engine.prefix = {.enabled = !flags.no_prefix_cache, .shared = shared};
  options.cluster_address = flags.cluster_address;
  options.cluster_tls = flags.cluster_tls;
  options.log_format = flags.log_format;
  if (flags.wait_workers > 0) {
    options.launch = false;
    options.workers = flags.wait_workers;
    if (options.cluster_address.empty()) options.cluster_address = "127.0.0.1:50052";
  }
  if (options.cluster_address.empty()) return options;
  RETURN_IF_ERROR(check_address("--cluster", options.cluster_address));
  const char* token = std::getenv("LOCKSTEP_JOIN_TOKEN");
  options.token = token != nullptr ? token : "";
  if (!options.token.empty()) RETURN_IF_ERROR(check_join_token(options.token));
  return options;
}

bool is_metric_prefix(const std::string& prefix) {
  const auto belongs = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !prefix.empty() && !std::isdigit(static_cast<unsigned char>(prefix[0])) &&
         std::ranges::all_of(prefix, belongs);
}

// Until it ends, says how many of the workers that are waited for have joined.
std::jthread say_who_joined(const Log& log, const Cluster& cluster, int wanted) {
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
    joining = say_who_joined(log, service.cluster(), flags.wait_workers);
  }
  RETURN_IF_ERROR(service.engine().wait_ready());
  joining = {};
  log.announce("ready; Ctrl-C ends it");
  return service.engine().wait_end();
}

absl::Status serve(const ServeFlags& flags, Interrupt& interrupt) {
  std::signal(SIGPIPE, SIG_IGN);  // Whoever read the log may go away.
  RETURN_IF_ERROR(check_cluster_tls(flags.cluster_tls));
  RETURN_IF_ERROR(flags.ports.check(flags.cluster_address, flags.cluster_tls));
  if (!is_metric_prefix(flags.metrics_prefix)) {
    return invalid_argument("--metrics-prefix {}: want letters, digits and _, e.g. vllm",
                            printable(flags.metrics_prefix));
  }
  // The engine's thread must not wait for whoever reads the log.
  ASSIGN_OR_RETURN(const LogFormat format, log_format_of(flags.log_format));
  const Log log({.format = format, .background = true});
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                   flags.model.open(WeightFiles::kNeeded, flags.group.automatic_chunk()));
  if (model->tokenizer() == nullptr) {
    spdlog::warn("{}: prompts are token ids, and answers have no text", model->without_tokenizer());
  }
  ASSIGN_OR_RETURN(ServiceOptions options, service_options(flags));
  const int workers = options.workers;
  EngineMetrics metrics(flags.metrics_prefix, model->name());
  TraceRecorder recorder;
  RequestLog request_log;
  QueueTimes queue(flags.queue_seconds * 1000L);
  std::vector<EngineObserver*> watching = {&metrics, &request_log, &queue};
  if (flags.ports.admin_address != "off") watching.push_back(&recorder);
  EngineObservers observers(std::move(watching));
  options.engine.observer = &observers;
  options.engine.max_outage_ms = flags.queue_seconds * 1000L;
  KeptStreams kept({.max_bytes = flags.resume_bytes, .after_end_ms = flags.resume_seconds * 1000L});
  ASSIGN_OR_RETURN(const std::unique_ptr<InferenceService> service,
                   InferenceService::start(model.get(), std::move(options)));
  // Ports answer at once, as not ready, so that probes see a process that is starting.
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ServedPorts> ports,
      ServedPorts::start(
          {.model = model.get(),
           .engine = &service->engine(),
           .workers = workers,
           .kept = flags.resume_bytes > 0 ? &kept : nullptr,
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
  engine.stop();  // What was not drained in time ends with CANCELLED.
  ports->wait_answered();
  return signalled ? absl::OkStatus() : status;
}

// Names of the model, and values for requests that do not say them.
void add_default_flags(CLI::App& app, ModelFlags& flags) {
  app.add_option("--served-model-name", flags.served_names,
                 "What clients call the model (default: as its folder is called); repeatable, the "
                 "first is in answers")
      ->allow_extra_args(false)
      ->check([](const std::string& name) -> std::string {
        const auto plain = [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\'; };
        if (!name.empty() && name.size() <= 256 && std::ranges::all_of(name, plain)) return "";
        return "wanted up to 256 printable characters without blanks and quotes, found " +
               printable(name);
      });
  app.add_option("--sampling-defaults", flags.defaults.sampling,
                 "Sampling of requests that do not say it, over the model's generation_config, as "
                 "JSON: {\"temperature\": 0.6, \"presence_penalty\": 1}");
  app.add_option("--max-tokens-default", flags.defaults.max_tokens,
                 "Tokens of answers to requests that do not say a number")
      ->check(whole_number(1, 1 << 30));
  app.add_option("--chat-template-kwargs", flags.defaults.template_variables,
                 "Variables of the chat template that requests need not set, as JSON: "
                 "{\"enable_thinking\": false}");
}

// What requests may want, and how long they wait, run and stay.
void add_request_flags(CLI::App& app, ServeFlags& flags) {
  app.add_option("--step-budget-ms", flags.step_budget_ms,
                 "What a step may take while texts are written: long prompts get what is left of "
                 "it, and hold up nobody for longer; 0: any time (default: 60, on GPUs 50)")
      ->check(whole_number(0, 600'000));
  app.add_option("--queue-seconds", flags.queue_seconds,
                 "A request that would wait longer until it begins, as far as that can be known, "
                 "is refused; where all workers are gone for longer, those without a deadline end, "
                 "too; 0: any time")
      ->check(whole_number(0, 86'400))
      ->capture_default_str();
  app.add_flag("--no-prefix-cache", flags.no_prefix_cache,
               "Keep nothing of a prompt for later ones with the same beginning");
  app.add_flag("--share-prefixes", flags.share_prefixes,
               "Let clients use each other's cached prompts, as without --api-keys; who "
               "measures times can then find out what others asked");
  app.add_flag("--prompt-embeds", flags.model.takes_prompt_embeds,
               "Take rows of embeddings in prompts (prompt_embeds of gRPC's Generate)");
  app.add_option("--drain-seconds", flags.drain_seconds,
                 "At SIGTERM or Ctrl-C, how long the requests there are may go on")
      ->check(whole_number(0, 86'400))
      ->capture_default_str();
  app.add_option("--resume-bytes", flags.resume_bytes,
                 "Memory for the answers of resumable requests, of all together; 0: none are")
      ->transform(size_in_bytes())
      ->default_str("256MiB");
  app.add_option("--resume-seconds", flags.resume_seconds,
                 "How long after its end a resumable answer is kept")
      ->check(whole_number(1, 86'400))
      ->capture_default_str();
}

}  // namespace

std::shared_ptr<Command> add_serve(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<ServeFlags>();
  command->app = parent.add_subcommand(
      "serve",
      "Serves MODEL over HTTP (OpenAI's API, a page at /, metrics, probes) and gRPC\n"
      "(lockstep.v1.Generation, health, reflection).\n"
      "Starts its workers on this machine, or waits for others with --wait-workers.");
  flags->model.add_to(*command->app);
  flags->model.chat.add_to(*command->app);
  flags->group.add_to(*command->app);
  flags->ports.add_to(*command->app);
  add_default_flags(*command->app, flags->model);
  add_request_flags(*command->app, *flags);
  command->app->add_option("--wait-workers", flags->wait_workers,
                           "Start no worker: wait for this many `lockstep worker` to join");
  command->app->add_option("--cluster", flags->cluster_address,
                           "Where workers join (default with --wait-workers: 127.0.0.1:50052)");
  add_cluster_tls(*command->app, flags->cluster_tls);
  command->app
      ->add_option("--metrics-prefix", flags->metrics_prefix,
                   "What names at /metrics begin with; vllm gives them the names of vLLM's")
      ->capture_default_str();
  add_log_format(*command->app, flags->log_format);
  read_environment(*command->app);
  command->app->footer(
      "Each of these may be given by the environment instead, by the variable named with it. What "
      "is on the command's line wins.");
  command->run = [flags](Interrupt& interrupt) { return serve(*flags, interrupt); };
  return command;
}

}  // namespace lockstep
