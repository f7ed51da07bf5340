// SPDX-License-Identifier: Apache-2.0
// `lockstep bench`: tokens per second of prefill and decode, with the same engine that serves.
// `lockstep bench serve` (bench_serve.cc) puts a load on a server.
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/system/cpu.h"
#include "tools/commands/command.h"
#include "tools/commands/measuring/bench_case.h"
#include "tools/terminal.h"

namespace lockstep {
namespace {

struct BenchFlags {
  RunOptions run;
  int64_t prompt_tokens = 512;
  int64_t output_tokens = 128;
  int64_t batch = 1;
  std::string cases;
  int repeat = 3;
  bool json = false;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::StatusOr<std::vector<BenchTimes>> repeat_case(const BenchCase& bench_case, int repeat,
                                                    InferenceService& service) {
  RETURN_IF_ERROR(check_fits(bench_case, service.model()));
  std::vector<BenchTimes> times;
  ProgressLine line;
  for (int run = 0; run < repeat; ++run) {
    line.spin(fmt::format("{}: run {} of {}", bench_case.name, run + 1, repeat));
    ASSIGN_OR_RETURN(const BenchTimes one, run_case(bench_case, service));
    times.push_back(one);
  }
  return times;
}

// Resident memory by local worker: weights, used KV pages, and everything else.
std::vector<int64_t> resident_bytes(const InferenceService& service) {
  std::vector<int64_t> bytes;
  if (service.launcher() == nullptr) return bytes;
  for (const pid_t pid : service.launcher()->pids()) {
    std::ifstream file(fmt::format("/proc/{}/statm", pid));
    int64_t all = 0, resident = 0;
    file >> all >> resident;
    bytes.push_back(resident * sysconf(_SC_PAGESIZE));
  }
  return bytes;
}

// Describes the model and the group.
nlohmann::ordered_json describe_group(const RunOptions& run, const InferenceService& service,
                                      const EngineStats& stats) {
  return {{"model", service.model().name()},
          {"weight_bytes", stats.group.weight_bytes},
          {"workers", run.service.cluster.workers},
          {"threads", run.threads()},
          {"strategy", stats.group.strategy},
          {"numeric_class", stats.group.numeric_class},
          {"devices", run.devices().value_or(std::vector<std::string>())},
          {"isa", isa_name(best_isa())},
          {"processor", cpu_model_name()}};
}

void print_group(const nlohmann::ordered_json& figures) {
  fmt::print("{}: {} workers of {} threads, {} ({})\n", figures["model"].get<std::string>(),
             figures["workers"].get<int>(), figures["threads"].get<int>(),
             figures["processor"].get<std::string>(), figures["isa"].get<std::string>());
  fmt::print("weights  {}\n", human_bytes(figures["weight_bytes"].get<int64_t>()));
}

void print(const BenchFlags& flags, const nlohmann::ordered_json& figures) {
  if (flags.json) {
    fmt::print("{}\n", figures.dump());
    return;
  }
  print_group(figures);
  fmt::print("prefill  {:.1f} tokens/s ({} sequences of {})\n",
             figures["prefill_tokens_per_s"].get<double>(), flags.batch, flags.prompt_tokens);
  fmt::print("decode   {:.1f} tokens/s ({} sequences, {} tokens each)\n",
             figures["decode_tokens_per_s"].get<double>(), flags.batch, flags.output_tokens);
}

// Measures one prompt length and the decode after it.
absl::Status bench_prompt(const BenchFlags& flags, InferenceService& service) {
  const BenchCase bench_case{.name = "bench",
                             .prompt_tokens = flags.prompt_tokens,
                             .decode_steps = flags.output_tokens - 1,
                             .batch = flags.batch};
  ASSIGN_OR_RETURN(const std::vector<BenchTimes> times,
                   repeat_case(bench_case, flags.repeat, service));
  std::vector<double> prefill, decode;
  for (const BenchTimes& one : times) {
    prefill.push_back(static_cast<double>(flags.batch * flags.prompt_tokens) / one.prefill_s);
    decode.push_back(static_cast<double>(bench_case.tokens()) / one.decode_s);
  }
  const EngineStats stats = service.engine().stats();
  nlohmann::ordered_json figures = {
      {"prefill_tokens_per_s", median(prefill)},
      {"decode_tokens_per_s", median(decode)},
      {"prompt_tokens", flags.prompt_tokens},
      {"output_tokens", flags.output_tokens},
      {"batch", flags.batch},
      {"repeat", flags.repeat},
      {"worker_resident_bytes", resident_bytes(service)},
      {"coordinator_us_per_step",
       stats.steps > 0 ? coordinator_ns(stats.times_ns) / 1000.0 / stats.steps : 0.0}};
  figures.update(describe_group(flags.run, service, stats));
  print(flags, figures);
  return absl::OkStatus();
}

absl::Status bench_case(const BenchFlags& flags, const BenchCase& bench_case,
                        InferenceService& service) {
  ASSIGN_OR_RETURN(const std::vector<BenchTimes> times,
                   repeat_case(bench_case, flags.repeat, service));
  std::vector<double> seconds;
  seconds.reserve(times.size());
  for (const BenchTimes& one : times) seconds.push_back(one.timed(bench_case));
  const double tokens_per_s = static_cast<double>(bench_case.tokens()) / median(seconds);
  if (flags.json) {
    const nlohmann::ordered_json line = {{"case", bench_case.name},
                                         {"tokens", bench_case.tokens()},
                                         {"tokens_per_s", tokens_per_s},
                                         {"seconds", seconds}};
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("{:<24}{:>10.1f} tokens/s\n", bench_case.name, tokens_per_s);
  }
  std::fflush(stdout);  // A program that sends cases line by line waits for this.
  return absl::OkStatus();
}

absl::Status bench_cases(const BenchFlags& flags, InferenceService& service) {
  const nlohmann::ordered_json group = describe_group(flags.run, service, service.engine().stats());
  if (flags.json) {
    fmt::print("{}\n", group.dump());
  } else {
    print_group(group);
  }
  std::fflush(stdout);
  const bool from_input = flags.cases == "-";
  for (std::string list = flags.cases; !from_input || std::getline(std::cin, list);) {
    ASSIGN_OR_RETURN(const std::vector<BenchCase> cases, parse_bench_cases(list));
    for (const BenchCase& one : cases) RETURN_IF_ERROR(bench_case(flags, one, service));
    if (!from_input) break;
  }
  return absl::OkStatus();
}

absl::Status bench(const BenchFlags& flags, Interrupt& interrupt) {
  const bool has_list = !flags.cases.empty() && flags.cases != "-";
  if (has_list) RETURN_IF_ERROR(parse_bench_cases(flags.cases).status());  // Check before loading.
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, flags.run.open());
  ASSIGN_OR_RETURN(ServiceOptions options, flags.run.service_options());
  options.engine.prefix.enabled = false;  // Repeats would find their prompts cached.
  ASSIGN_OR_RETURN(const std::unique_ptr<InferenceService> service,
                   start_service(*model, std::move(options), interrupt));
  const Interrupt::Actions on_signal = interrupt.on_signal([&] { service->stop(); });
  return flags.cases.empty() ? bench_prompt(flags, *service) : bench_cases(flags, *service);
}

}  // namespace

std::shared_ptr<Command> add_bench(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<BenchFlags>();
  command->app = parent.add_subcommand(
      "bench", "Measures tokens per second of prefill and of decode: medians of several runs.");
  add_flags(*command->app, flags->run.model_flags());
  add_flags(*command->app, flags->run.group_flags());
  add_flags(
      *command->app,
      {{"--prompt-tokens", &flags->prompt_tokens, "Tokens of each prompt", FlagValues{.min = 1}},
       {"--output-tokens", &flags->output_tokens, "Tokens of each answer", FlagValues{.min = 2}},
       {"--batch", &flags->batch, "Sequences that run at once", FlagValues{.min = 1}},
       {"--cases", &flags->cases,
        "Cases, separated by commas, in place of --prompt-tokens, --output-tokens and --batch: "
        "prefill:512 (tokens), decode:128 (steps), decode:128@4096 (after 4096 tokens), "
        "decode:128x8 "
        "(8 sequences at once); \"-\": each line of standard input has cases. With --json the "
        "first line describes the workers; then each case has one line"},
       {"--repeat", &flags->repeat, "The number of runs; medians are printed",
        FlagValues{.min = 1}},
       {"--json", &flags->json, "One JSON object on one line"}});
  const std::shared_ptr<Command> serve = add_bench_serve(*command->app);
  command->run = [flags, serve](Interrupt& interrupt) {
    return serve->app->parsed() ? serve->run(interrupt) : bench(*flags, interrupt);
  };
  return command;
}

}  // namespace lockstep
