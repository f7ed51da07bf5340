// SPDX-License-Identifier: Apache-2.0
// `lockstep bench serve`: a load on any server that speaks OpenAI's HTTP interface.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
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
    "Puts a load on a server that speaks OpenAI's HTTP interface, and measures its answers.\n"
    "  --rate R         requests arrive at random, R per second, whatever the server does\n"
    "  --trace FILE     requests arrive when the file says\n"
    "  --concurrency N  each of N clients sends its next request when it has its answer";
constexpr char kFooter[] =
    "Latencies count from the time when a request arrives, also where it was sent later. Lengths "
    "are 128 (each), 64:512 (uniform) or lognormal:MEDIAN:SIGMA. A trace has one JSON object per "
    "line: {\"at_s\": 0.5, \"prompt_tokens\": 100, \"max_tokens\": 64}, or \"prompt\" in place of "
    "\"prompt_tokens\".";
constexpr int64_t kDefaultRequests = 100;

struct BenchServeFlags {
  std::string url = "http://127.0.0.1:8000";
  std::string endpoint = "completions";
  std::string model;
  std::string api_key_env = "OPENAI_API_KEY";
  double rate = 0;
  std::string trace;
  int concurrency = 0;
  int64_t requests = 0;
  double duration_s = 0;
  std::string prompt_tokens = "128";
  std::string output_tokens = "128";
  std::string prompts;
  std::string extra_body = "{}";
  uint64_t seed = 1;
  double timeout_s = 600;
  double slo_ttft_ms = 0;
  double slo_tpot_ms = 0;
  bool json = false;
};

bool is_positive(double value) { return std::isfinite(value) && value > 0; }

absl::Status check(const BenchServeFlags& flags, const CLI::App& app) {
  if (app.count("--rate") + app.count("--trace") + app.count("--concurrency") != 1) {
    return invalid_argument("wanted one of --rate, --trace and --concurrency");
  }
  const std::pair<const char*, double> numbers[] = {{"--rate", flags.rate},
                                                    {"--duration", flags.duration_s},
                                                    {"--timeout", flags.timeout_s},
                                                    {"--slo-ttft-ms", flags.slo_ttft_ms},
                                                    {"--slo-tpot-ms", flags.slo_tpot_ms}};
  for (const auto& [name, value] : numbers) {
    if (app.count(name) > 0 && (!is_positive(value) || value > 1e6)) {
      return invalid_argument("{} {}: wanted a number above 0, at most 1000000", name, value);
    }
  }
  if (app.count("--concurrency") > 0 && (flags.concurrency < 1 || flags.concurrency > 65536)) {
    return invalid_argument("--concurrency {}: wanted 1 to 65536", flags.concurrency);
  }
  if (app.count("--requests") > 0 && flags.requests < 1) {
    return invalid_argument("--requests {}: wanted 1 or more", flags.requests);
  }
  if (flags.endpoint != "completions" && flags.endpoint != "chat") {
    return invalid_argument("--endpoint {}: wanted completions or chat", flags.endpoint);
  }
  return absl::OkStatus();
}

absl::StatusOr<WorkloadOptions> workload_options(const BenchServeFlags& flags) {
  WorkloadOptions options{.rate = flags.rate, .requests = flags.requests, .seed = flags.seed};
  ASSIGN_OR_RETURN(options.prompt_tokens, Lengths::parse("--prompt-tokens", flags.prompt_tokens));
  ASSIGN_OR_RETURN(options.output_tokens, Lengths::parse("--output-tokens", flags.output_tokens));
  if (!flags.prompts.empty()) {
    ASSIGN_OR_RETURN(options.prompts, read_prompts(flags.prompts));
  }
  if (!flags.trace.empty()) {
    ASSIGN_OR_RETURN(options.trace, read_trace(flags.trace));
  } else if (flags.requests == 0 && flags.duration_s == 0) {
    options.requests = kDefaultRequests;
  }
  return options;
}

// The key is read from the environment: what is in a command's line, everybody on the host sees.
absl::StatusOr<std::string> read_api_key(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  const std::string key = value != nullptr ? value : "";
  if (std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; })) return key;
  return invalid_argument("the environment's {} has a byte that no API key has", variable);
}

absl::StatusOr<LoadOptions> load_options(const BenchServeFlags& flags) {
  LoadOptions options{.model = flags.model, .concurrency = flags.concurrency};
  ASSIGN_OR_RETURN(options.url, parse_url("--url", flags.url));
  if (options.url.tls) {
    return invalid_argument("--url {}: this load speaks no TLS: name a port without", flags.url);
  }
  ASSIGN_OR_RETURN(options.api_key, read_api_key(flags.api_key_env));
  ASSIGN_OR_RETURN(options.extra, parse_json(flags.extra_body, "--extra-body"));
  if (!options.extra.is_object()) {
    return invalid_argument("--extra-body: wanted an object, found {}", describe(options.extra));
  }
  if (flags.endpoint == "chat") options.endpoint = Endpoint::kChat;
  if (flags.duration_s > 0) options.duration_s = flags.duration_s;
  options.timeout_s = flags.timeout_s;
  return options;
}

std::string load_text(const BenchServeFlags& flags) {
  if (!flags.trace.empty()) return fmt::format("trace {}", flags.trace);
  const std::string load = flags.concurrency > 0
                               ? fmt::format("{} at a time", flags.concurrency)
                               : fmt::format("Poisson, {} requests/s", flags.rate);
  const std::string prompts =
      flags.prompts.empty() ? flags.prompt_tokens + " words" : fmt::format("of {}", flags.prompts);
  return fmt::format("{}, seed {}; prompts {}, answers {} tokens at most", load, flags.seed,
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
  RETURN_IF_ERROR(check(flags, app));
  ASSIGN_OR_RETURN(WorkloadOptions workload_of, workload_options(flags));
  ASSIGN_OR_RETURN(LoadOptions options, load_options(flags));
  LoadReport report{
      .url = options.url.text(), .endpoint = flags.endpoint, .load = load_text(flags)};
  if (flags.slo_ttft_ms > 0) report.slo.ttft_ms = flags.slo_ttft_ms;
  if (flags.slo_tpot_ms > 0) report.slo.tpot_ms = flags.slo_tpot_ms;
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
      line.spin(fmt::format("{:.0f} s: {} answered, {} failed, {} under way, {} events",
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
  app.add_option("--rate", flags.rate, "Requests per second, on average");
  app.add_option("--trace", flags.trace, "A file that says what arrives when");
  app.add_option("--concurrency", flags.concurrency, "Requests under way at any time");
  app.add_option("--requests", flags.requests,
                 "How many to send (default: 100, or without end where --duration is given)")
      ->excludes("--trace");
  app.add_option("--duration", flags.duration_s,
                 "Seconds after which none is sent; those under way are waited for");
  app.add_option("--prompt-tokens", flags.prompt_tokens,
                 "Length of prompts, which are frequent English words: about a token each")
      ->capture_default_str()
      ->excludes("--trace");
  app.add_option("--output-tokens", flags.output_tokens, "max_tokens of requests")
      ->capture_default_str()
      ->excludes("--trace");
  app.add_option("--prompts", flags.prompts, "A file with a prompt per line, taken in turn")
      ->excludes("--trace")
      ->excludes("--prompt-tokens");
  app.add_option("--seed", flags.seed, "Of arrivals, lengths and words")->capture_default_str();
}

}  // namespace

std::shared_ptr<Command> add_bench_serve(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<BenchServeFlags>();
  CLI::App* app = command->app = parent.add_subcommand("serve", kAbout);
  app->footer(kFooter);
  app->add_option("--url", flags->url, "Where the server is; /v1 is added where no path is given")
      ->capture_default_str();
  app->add_option("--endpoint", flags->endpoint, "completions or chat")->capture_default_str();
  app->add_option("--model", flags->model, "Its name (default: the first that the server lists)");
  app->add_option("--api-key-env", flags->api_key_env,
                  "The environment's variable that holds the API key, if there is one")
      ->capture_default_str();
  add_load_flags(*app, *flags);
  app->add_option("--extra-body", flags->extra_body,
                  "A JSON object whose members every request has, e.g. '{\"ignore_eos\": true}'");
  app->add_option("--timeout", flags->timeout_s, "Seconds after which a request is given up")
      ->capture_default_str();
  app->add_option("--slo-ttft-ms", flags->slo_ttft_ms,
                  "Goodput counts answers whose first token came within this time");
  app->add_option("--slo-tpot-ms", flags->slo_tpot_ms,
                  "and whose further tokens took this much each, at most");
  app->add_flag("--json", flags->json, "One JSON object on one line");
  command->run = [flags, app](Interrupt& interrupt) {
    return bench_serve(*flags, *app, interrupt);
  };
  return command;
}

}  // namespace lockstep
