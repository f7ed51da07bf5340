// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/command.h"

#include <fmt/ranges.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/status.h"
#include "base/system/cpu.h"
#include "coordinator/text/known_templates.h"
#include "tools/commands/flag_checks.h"
#include "tools/terminal.h"
#include "worker/backend.h"

namespace lockstep {

absl::StatusOr<std::unique_ptr<Model>> open_model(const ModelOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::open(options));
  for (const std::string& warning : model->warnings()) {
    spdlog::warn("{}: {}", model->name(), warning);
  }
  return model;
}

void ModelFlags::add_to(CLI::App& app) {
  app.add_option("MODEL", path,
                 "A folder in Hugging Face layout, or org/name in the local Hugging Face cache; "
                 "nothing: the demo model");
  app.add_option("--dtype", dtype,
                 "Type of weights in memory: auto (as stored), float32 (and all arithmetic in "
                 "float32), bfloat16")
      ->capture_default_str();
  app.add_option("--quantize", quantize,
                 "Weights as small integers, rounded as they are loaded: " + scheme_names());
  app.add_option("--kv-dtype", kv_dtype,
                 "Type of keys and values in memory: auto (bfloat16 where weights are, else "
                 "float32), float32, bfloat16, int8")
      ->capture_default_str();
  app.add_option(
         "--embedding", embedding,
         "Where the embedding is: memory, or file (rows are read from the checkpoint when tokens "
         "need them, and the file must not change meanwhile). With --quantize, file gives other "
         "bits than memory: the rows are not rounded")
      ->capture_default_str();
  app.add_option("--strategy", strategy,
                 "How matrices are cut: gather (the same bits for any number of workers) or reduce "
                 "(less communication; the bits depend on the number of workers); default: gather, "
                 "reduce with --fast");
  app.add_flag("--fast", fast,
               "GPUs compute in their fast numeric class: kernels are chosen by time, and the bits "
               "of a request may depend on what runs beside it");
  app.add_option("--random-weights", random_weights,
                 "Draw the weights from this seed: only config.json is read");
  app.add_option("--ignore-config", ignore_config, "A key of config.json to ignore (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--max-context", max_context, "Positions of a sequence (default: the model's)");
  app.add_option("--prefill-chunk", prefill_chunk,
                 "Prompt tokens computed in one step: a number, or auto (" +
                     std::to_string(kGpuChunk) + " where this host's workers have GPUs, else " +
                     std::to_string(kChunk) + ")")
      ->capture_default_str();
  app.add_option("--max-running", max_running, "Sequences computed together, at most")
      ->capture_default_str();
}

absl::StatusOr<int64_t> ModelFlags::chunk(int64_t automatic) const {
  if (prefill_chunk == "auto") return automatic;
  int64_t rows = 0;
  const char* end = prefill_chunk.data() + prefill_chunk.size();
  const auto [stop, error] = std::from_chars(prefill_chunk.data(), end, rows);
  if (error == std::errc() && stop == end && rows >= 1 && rows <= 65536) return rows;
  return invalid_argument("--prefill-chunk {}: wanted auto, or 1 to 65536", prefill_chunk);
}

absl::StatusOr<std::unique_ptr<Model>> ModelFlags::open(WeightFiles files,
                                                        int64_t automatic_chunk) const {
  ModelOptions options;
  options.path = path;
  options.weight_files = files;
  options.dtype = dtype;
  options.quantize = quantize;
  options.kv_dtype = kv_dtype;
  options.ignore_config = ignore_config;
  options.chat_template = chat.choice;
  options.template_variables = chat.variables;
  options.takes_prompt_embeds = takes_prompt_embeds;
  options.names = served_names;
  options.defaults = defaults;
  if (embedding != "memory" && embedding != "file") {
    return invalid_argument("--embedding {}: wanted memory or file", embedding);
  }
  options.embedding_in_file = embedding == "file";
  const std::string cut = !strategy.empty() ? strategy : fast ? "reduce" : "gather";
  if (cut != "gather" && cut != "reduce") {
    return invalid_argument("--strategy {}: wanted gather or reduce", strategy);
  }
  options.strategy = cut == "gather" ? Strategy::kGather : Strategy::kReduce;
  if (!random_weights.empty()) {
    uint64_t seed = 0;
    const char* end = random_weights.data() + random_weights.size();
    if (const auto [stop, error] = std::from_chars(random_weights.data(), end, seed);
        error != std::errc() || stop != end) {
      return invalid_argument("--random-weights {}: wanted a number of 0 or more", random_weights);
    }
    options.random_weights = seed;
  }
  if (max_context < 0) return invalid_argument("--max-context {}: wanted 1 or more", max_context);
  ASSIGN_OR_RETURN(const int64_t chunk_rows, chunk(automatic_chunk));
  if (max_running < 1 || max_running > 4096) {
    return invalid_argument("--max-running {}: wanted 1 to 4096", max_running);
  }
  options.max_context = max_context;
  options.max_rows = chunk_rows + max_running;
  options.max_sequences = max_running;
  return open_model(options);
}

void ChatFlags::add_to(CLI::App& app) {
  app.add_option("--chat-template", choice,
                 fmt::format("A file with a chat template, or one that is known by name ({}), in "
                             "place of MODEL's",
                             known_template_names()));
  app.add_option("--template-vars", variables,
                 fmt::format("Names of variables that a request may pass to the chat template, "
                             "with commas between them, beside {}",
                             fmt::join(ChatTemplate::kThinkingVariables, ", ")))
      ->delimiter(',');
}

void WeightCacheFlags::add_to(CLI::App& app) {
  app.add_option("--weight-cache", choice,
                 "Folder where each worker keeps its weights packed for this machine, so that the "
                 "next start is fast: DIR, auto (lockstep in the user's cache folder, for weights "
                 "of 64 MiB and more) or off")
      ->capture_default_str();
  app.add_option(
         "--weight-cache-limit", limit_bytes,
         "Largest size of that folder; the files unused for longest are deleted (default: 50 GB)")
      ->transform(size_in_bytes());
}

namespace {

absl::Status check_regrouping(const GroupFlags& flags) {
  constexpr int64_t kMaxSeconds = 1'000'000;
  if (flags.grace_ms < 0 || flags.grace_ms > kMaxSeconds * 1'000) {
    return invalid_argument("--grace-ms {}: wanted 0 to {}", flags.grace_ms, kMaxSeconds * 1'000);
  }
  if (flags.min_workers < 1) {
    return invalid_argument("--min-workers {}: wanted 1 or more", flags.min_workers);
  }
  if (flags.regrow_seconds >= 0 && flags.regrow_seconds <= kMaxSeconds) return absl::OkStatus();
  return invalid_argument("--regrow-seconds {}: wanted 0 to {}", flags.regrow_seconds, kMaxSeconds);
}

int64_t chunk_on(const std::vector<std::string>& devices) {
  return devices[0] == "cpu" ? kChunk : kGpuChunk;
}

}  // namespace

void GroupFlags::add_to(CLI::App& app) {
  app.add_option("--workers", workers, "Worker processes that share the model")
      ->capture_default_str();
  app.add_option("--threads", threads, "Threads of each worker (default: cores / workers)");
  app.add_flag("--no-pin", no_pin,
               "Let the system move threads between processors (default: each is bound to one "
               "where there are enough)");
  app.add_option("--device", device,
                 "What workers compute on: cpu; cuda, one GPU per worker; cuda:N, one GPU for all; "
                 "auto, cuda where there are enough GPUs")
      ->capture_default_str();
  add_memory_fraction(app, memory_fraction);
  app.add_option("--kv-memory", kv_memory_bytes,
                 "Memory of each worker for what it keeps of sequences (keys and values, recurrent "
                 "state), e.g. 2GiB (default: what is left)")
      ->transform(size_in_bytes());
  app.add_option("--silent-ms", silent_ms,
                 "A worker from which nothing comes for this long is lost, and started again")
      ->capture_default_str();
  app.add_option("--stuck-ms", stuck_ms,
                 "A worker that holds up the others, and does nothing for this long, is lost")
      ->capture_default_str();
  app.add_option("--grace-ms", grace_ms,
                 "A lost worker has this long to come back; then the others go on without it")
      ->capture_default_str();
  app.add_option("--min-workers", min_workers,
                 "Fewest workers that go on without those that were lost")
      ->capture_default_str();
  app.add_option("--regrow-seconds", regrow_seconds,
                 "A worker that comes later is used when no request runs, or after this long")
      ->capture_default_str();
  app.add_option("--speeds", speeds,
                 "How fast the workers are beside each other, by rank, e.g. 8,8,4: one with 8 gets "
                 "twice the part of one with 4 (default: by what workers started by hand measure; "
                 "others are alike)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(real_number(1e-6, 1e15));
  weight_cache.add_to(app);
  app.add_option(
         "--log-level", log_level,
         "debug (each worker prints a profile by kernel at the end), info, warning or error")
      ->capture_default_str();
}

int64_t GroupFlags::automatic_chunk() const {
  if (device == "cpu" || workers < 1) return kChunk;
  const auto devices = devices_of_workers(device, workers, find_gpus());
  return devices.ok() ? chunk_on(*devices) : kChunk;
}

absl::StatusOr<ServiceOptions> GroupFlags::service_options(const ModelFlags& model,
                                                           bool launches) const {
  if (workers < 1) return invalid_argument("--workers {}: wanted 1 or more", workers);
  if (threads < 0 || threads > 1024) {
    return invalid_argument("--threads {}: wanted 1 to 1024", threads);
  }
  RETURN_IF_ERROR(set_log_level(log_level));
  if (kv_memory_bytes < 0) {
    return invalid_argument("--kv-memory {}: wanted 0 or more bytes", kv_memory_bytes);
  }
  if (silent_ms < 500) return invalid_argument("--silent-ms {}: wanted 500 or more", silent_ms);
  if (stuck_ms < silent_ms) {
    return invalid_argument("--stuck-ms {}: wanted {}, as --silent-ms, or more", stuck_ms,
                            silent_ms);
  }
  RETURN_IF_ERROR(check_regrouping(*this));
  ServiceOptions options;
  const Gpus gpus = device == "cpu" ? Gpus() : find_gpus();
  ASSIGN_OR_RETURN(options.devices, devices_of_workers(device, workers, gpus));
  if (options.devices[0] == "cpu" && !gpus.devices.empty()) {
    spdlog::warn("{} GPUs were found and are not used: too few for {} workers, or too old",
                 gpus.devices.size(), workers);
  }
  if (launches) RETURN_IF_ERROR(check_class(options.devices, model.fast));
  options.fast = model.fast;
  options.memory_fraction = memory_fraction;
  options.workers = workers;
  options.threads = threads > 0 ? threads : std::max(1, usable_cores() / workers);
  options.pin = !no_pin;
  options.kv_memory_bytes = kv_memory_bytes;
  options.silent_ms = silent_ms;
  options.stuck_ms = stuck_ms;
  options.grace_ms = grace_ms;
  options.min_workers = min_workers;
  options.regrow_ms = regrow_seconds * 1'000;
  options.speeds = speeds;
  options.log_level = log_level;
  options.weight_cache = weight_cache.choice;
  options.weight_cache_limit = weight_cache.limit_bytes;
  ASSIGN_OR_RETURN(options.engine.prefill_chunk, model.chunk(chunk_on(options.devices)));
  options.engine.max_running = model.max_running;
  return options;
}

absl::Status set_log_level(const std::string& name) {
  constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};
  if (std::ranges::count(kNames, name) == 0) {
    return invalid_argument("--log-level {}: wanted debug, info, warning or error", name);
  }
  spdlog::set_level(spdlog::level::from_str(name));
  return absl::OkStatus();
}

void add_log_format(CLI::App& app, std::string& format) {
  app.add_option("--log-format", format, "text, or json: each line of the log is one object")
      ->capture_default_str();
}

void add_cluster_tls(CLI::App& app, TlsFiles& tls) {
  app.add_option("--cluster-cert", tls.cert,
                 "PEM file of this process's certificate for the port where workers join and for "
                 "their data; coordinator and workers each have one, read anew when it changes");
  app.add_option("--cluster-key", tls.key, "PEM file of its key");
  app.add_option("--cluster-ca", tls.ca,
                 "PEM file of the authority that signed the certificates of all of them");
}

absl::Status check_cluster_tls(const TlsFiles& tls) {
  const std::pair<const char*, const std::string*> files[] = {
      {"--cluster-cert", &tls.cert}, {"--cluster-key", &tls.key}, {"--cluster-ca", &tls.ca}};
  const bool any =
      std::ranges::any_of(files, [](const auto& file) { return !file.second->empty(); });
  for (const auto& [flag, path] : files) {
    if (!any) break;
    if (path->empty()) {
      return invalid_argument(
          "{}: want a file, found none; with one of --cluster-cert, "
          "--cluster-key and --cluster-ca give all three",
          flag);
    }
    if (access(path->c_str(), R_OK) != 0) {
      return invalid_argument("{} {}: want a file that can be read, found: {}", flag, *path,
                              error_text(errno));
    }
  }
  return absl::OkStatus();
}

void read_environment(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option == app.get_help_ptr()) continue;
    std::string name = option->get_single_name();  // "drain-seconds", or a positional's "MODEL".
    for (char& c : name) c = c == '-' ? '_' : absl::ascii_toupper(static_cast<unsigned char>(c));
    option->envname("LOCKSTEP_" + name);
  }
  // CLI11 reads the variables of every command, parsed or not, but for those with this callback.
  app.parse_complete_callback([] {});
}

void add_memory_fraction(CLI::App& app, double& fraction) {
  app.add_option("--memory-fraction", fraction,
                 "Share of the memory left beside the weights that keys and values may take "
                 "(default: 0.8 on processors, 0.9 on GPUs)")
      ->check(real_number(1e-6, 1));
}

absl::StatusOr<std::unique_ptr<InferenceService>> start_service(const Model& model,
                                                                ServiceOptions options,
                                                                Interrupt& interrupt) {
  auto line = std::make_shared<ProgressLine>();
  options.load_progress = [line](int64_t done, int64_t total) {
    line->bar("loading weights", done, total);
    if (done >= total) line->clear();
  };
  // The requests are this process' own, and are read when their turn comes.
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
