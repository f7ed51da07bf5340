// SPDX-License-Identifier: Apache-2.0
// `lockstep bench serve`: a load on any server with OpenAI's HTTP interface.
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>

#include "base/json.h"
#include "base/status.h"
#include "tools/commands/command.h"
#include "tools/load/client.h"
#include "tools/load/report.h"
#include "tools/terminal.h"

namespace lockstep {
namespace {

constexpr char kAbout[] =
    "Puts a load on a server with OpenAI's HTTP interface, and measures its answers.\n  --rate R   "
    "      requests are sent at random times, R per second, even if the server is slower\n  "
    "--trace FILE     "
    "requests are sent at the times in the file\n  --concurrency N  each of N clients sends a "
    "request when its last request was answered";
constexpr char kFooter[] =
    "A latency begins at the time at which the request was due, even if it was sent later. Lengths "
    "are 128 (fixed), "
    "64:512 (uniform) or lognormal:MEDIAN:SIGMA. A trace has one JSON object per line: {\"at_s\": "
    "0.5, \"prompt_tokens\": 100, \"max_tokens\": 64}, or \"prompt\" instead of \"prompt_tokens\".";
constexpr int64_t kDefaultRequests = 100;

struct BenchServeFlags {
  LoadOptions load;
  WorkloadOptions workload;
  Slo slo;
  std::string url = "http://127.0.0.1:8000";
  std::string endpoint = "completions";
  std::string api_key_env = "OPENAI_API_KEY";
  std::string trace;
  std::string prompt_tokens = "128";
  std::string output_tokens = "128";
  std::string prompts;
  std::string extra_body = "{}";
  bool json = false;
};

absl::StatusOr<WorkloadOptions> workload_options(const BenchServeFlags& flags) {
  WorkloadOptions options = flags.workload;
  ASSIGN_OR_RETURN(options.prompt_tokens, Lengths::parse("--prompt-tokens", flags.prompt_tokens));
  ASSIGN_OR_RETURN(options.output_tokens, Lengths::parse("--output-tokens", flags.output_tokens));
  if (!flags.prompts.empty()) {
    ASSIGN_OR_RETURN(options.prompts, read_prompts(flags.prompts));
  }
  if (!flags.trace.empty()) {
    ASSIGN_OR_RETURN(options.trace, read_trace(flags.trace));
  } else if (options.requests == 0 && !flags.load.duration_s.has_value()) {
    options.requests = kDefaultRequests;
  }
  return options;
}

// The key is read from the environment, because other users can see command lines.
absl::StatusOr<std::string> read_api_key(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  const std::string key = value != nullptr ? value : "";
  if (std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; })) return key;
  return invalid_argument("the environment variable {} has a byte that no API key has", variable);
}

absl::StatusOr<LoadOptions> load_options(const BenchServeFlags& flags) {
  LoadOptions options = flags.load;
  ASSIGN_OR_RETURN(options.url, parse_url("--url", flags.url));
  if (options.url.tls) {
    return invalid_argument("--url {}: bench serve does not support TLS; use an http:// URL",
                            flags.url);
  }
  ASSIGN_OR_RETURN(options.api_key, read_api_key(flags.api_key_env));
  ASSIGN_OR_RETURN(options.extra, parse_json(flags.extra_body, "--extra-body"));
  if (!options.extra.is_object()) {
    return invalid_argument("--extra-body: must be an object, found {}", describe(options.extra));
  }
  if (flags.endpoint == "chat") options.endpoint = Endpoint::kChat;
  return options;
}

std::string load_text(const BenchServeFlags& flags) {
  if (!flags.trace.empty()) return fmt::format("trace {}", flags.trace);
  const std::string load = flags.load.concurrency > 0
                               ? fmt::format("{} at a time", flags.load.concurrency)
                               : fmt::format("Poisson, {} requests/s", flags.workload.rate);
  const std::string prompts =
      flags.prompts.empty() ? flags.prompt_tokens + " words" : fmt::format("of {}", flags.prompts);
  return fmt::format("{}, seed {}; prompts {}, answers up to {} tokens", load, flags.workload.seed,
                     prompts, flags.output_tokens);
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void print(const BenchServeFlags& flags, const LoadReport& report) {
  if (flags.json) {
    fmt::print("{}\n", write_json(to_json(report)));
  } else {
    fmt::print("{}", to_text(report));
  }
}

absl::Status bench_serve(const BenchServeFlags& flags, const CLI::App& app, Interrupt& interrupt) {
  if (app.count("--rate") + app.count("--trace") + app.count("--concurrency") != 1) {
    return invalid_argument("must have exactly one of --rate, --trace and --concurrency");
  }
  ASSIGN_OR_RETURN(WorkloadOptions workload_of, workload_options(flags));
  ASSIGN_OR_RETURN(LoadOptions options, load_options(flags));
  LoadReport report{.url = options.url.text(),
                    .endpoint = flags.endpoint,
                    .load = load_text(flags),
                    .slo = flags.slo};
  Workload workload(std::move(workload_of));
  LoadClient client(std::move(options));
  const Interrupt::Actions on_signal = interrupt.on_signal([&] { client.stop(); });
  absl::Status status = client.prepare();
  if (status.ok()) {
    report.model = client.model();
    ProgressLine line;
    double elapsed_s = 0;
    const double begin = processor_seconds();
    const std::vector<LoadRecord> records = client.run(workload, [&](const LoadProgress& progress) {
      elapsed_s = progress.elapsed_s;
      line.spin(fmt::format("{:.0f} s: {} answered, {} failed, {} in flight, {} events",
                            progress.elapsed_s, progress.answered, progress.failed,
                            progress.in_flight, progress.text_events));
    });
    line.clear();
    report.client_cpu = elapsed_s > 0 ? (processor_seconds() - begin) / elapsed_s : 0;
    report.in_flight = client.in_flight();
    report.summary = summarize(records, report.slo);
    print(flags, report);
    if (report.summary.answered == 0) status = unavailable("no request was answered");
  }
  return interrupt.signalled() ? absl::CancelledError("interrupted") : status;
}

void add_load_flags(CLI::App& app, BenchServeFlags& flags) {
  const FlagValues positive{.min = 1e-9, .max = 1e6};
  add_flags(
      app,
      {{"--rate", &flags.workload.rate, "Requests per second, on average", positive},
       {"--trace", &flags.trace, "A file with the requests and their arrival times",
        FlagValues{.form = "FILE"}},
       {"--concurrency", &flags.load.concurrency, "Requests in flight at any time",
        FlagValues{.min = 1, .max = 65'536}},
       {"--requests", &flags.workload.requests,
        "The number of requests (default: 100, or no limit with --duration)", FlagValues{.min = 1}},
       {"--duration", &flags.load.duration_s,
        "Seconds after which no more requests are sent; requests in flight are still awaited",
        positive},
       {"--prompt-tokens", &flags.prompt_tokens,
        "Length of prompts; they consist of frequent English words, of about one token each"},
       {"--output-tokens", &flags.output_tokens, "max_tokens of requests"},
       {"--prompts", &flags.prompts, "A file with one prompt per line, used one after the other",
        FlagValues{.form = "FILE"}},
       {"--seed", &flags.workload.seed, "The seed of arrivals, lengths and words"},
       {"--timeout", &flags.load.timeout_s, "Seconds after which a request fails", positive},
       {"--slo-ttft-ms", &flags.slo.ttft_ms,
        "Goodput counts answers whose first token arrived within this time in ms", positive},
       {"--slo-tpot-ms", &flags.slo.tpot_ms,
        "Goodput counts answers whose mean time per token after the first is at most this time in "
        "ms",
        positive}});
  for (const char* name : {"--requests", "--prompt-tokens", "--output-tokens", "--prompts"}) {
    app.get_option(name)->excludes("--trace");
  }
  app.get_option("--prompts")->excludes("--prompt-tokens");
}

}  // namespace

std::shared_ptr<Command> add_bench_serve(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<BenchServeFlags>();
  CLI::App* app = command->app = parent.add_subcommand("serve", kAbout);
  app->footer(kFooter);
  add_flags(
      *app,
      {{"--url", &flags->url, "The server's URL; /v1 is added if it has no path"},
       {"--endpoint", &flags->endpoint, "completions or chat",
        FlagValues{.words = {"completions", "chat"}}},
       {"--model", &flags->load.model,
        "The model's name (default: the first that the server lists)"},
       {"--api-key-env", &flags->api_key_env,
        "The environment variable that has the API key, if the server needs a key"},
       {"--extra-body", &flags->extra_body,
        "A JSON object whose members are added to every request, e.g. '{\"ignore_eos\": true}'"},
       {"--json", &flags->json, "One JSON object on one line"}});
  add_load_flags(*app, *flags);
  command->run = [flags, app](Interrupt& interrupt) {
    return bench_serve(*flags, *app, interrupt);
  };
  return command;
}

}  // namespace lockstep
