// SPDX-License-Identifier: Apache-2.0
// `lockstep bench`: tokens a second of prefill and decode, through the same engine that serves.
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "base/status.h"
#include "tools/commands/command.h"
#include "tools/terminal.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchFlags {
  ModelFlags model;
  GroupFlags group;
  int prompt_tokens = 512;
  int output_tokens = 128;
  int batch = 1;
  int repeat = 3;
  bool json = false;
};

// Seconds of one run: until the last sequence had its first token, and from there to the end.
struct Times {
  double prefill_s = 0;
  double decode_s = 0;
};

Request make_request(const BenchFlags& flags, int64_t vocab, int index) {
  Request request;
  request.id = fmt::format("bench-{}", index);
  for (int i = 0; i < flags.prompt_tokens; ++i) {
    request.prompt_ids.push_back(
        static_cast<int32_t>((7919LL * (i + 1) + 104729LL * index) % vocab));
  }
  request.max_tokens = flags.output_tokens;
  request.sampling.temperature = 0;
  return request;
}

absl::StatusOr<Times> run_once(const BenchFlags& flags, InferenceService& service) {
  const auto start = Clock::now();
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < flags.batch; ++i) {
    ASSIGN_OR_RETURN(
        std::shared_ptr<Stream> stream,
        service.engine().submit(make_request(flags, service.model().config().vocab_size, i)));
    streams.push_back(std::move(stream));
  }
  for (const auto& stream : streams) stream->wait(0);
  const auto first = Clock::now();
  for (const auto& stream : streams) {
    std::vector<StreamEvent> events;
    while (!stream->read(events.size(), &events)) stream->wait(events.size());
    RETURN_IF_ERROR(stream->status());
  }
  const auto end = Clock::now();
  return Times{std::chrono::duration<double>(first - start).count(),
               std::chrono::duration<double>(end - first).count()};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::Status check(const BenchFlags& flags, const Model& model) {
  if (flags.prompt_tokens < 1 || flags.output_tokens < 2 || flags.batch < 1 || flags.repeat < 1) {
    return invalid_argument(
        "wanted --prompt-tokens and --batch and --repeat of 1 or more, --output-tokens of 2 or "
        "more");
  }
  if (flags.prompt_tokens + flags.output_tokens > model.max_context()) {
    return invalid_argument(
        "--prompt-tokens {} and --output-tokens {} are more than the model's context of {}",
        flags.prompt_tokens, flags.output_tokens, model.max_context());
  }
  return absl::OkStatus();
}

void print(const BenchFlags& flags, const nlohmann::ordered_json& figures) {
  if (flags.json) {
    fmt::print("{}\n", figures.dump());
    return;
  }
  fmt::print("{}: {} workers of {} threads, {} ({})\n", figures["model"].get<std::string>(),
             figures["workers"].get<int>(), figures["threads"].get<int>(),
             figures["processor"].get<std::string>(), figures["isa"].get<std::string>());
  fmt::print("weights  {}\n", human_bytes(figures["weight_bytes"].get<int64_t>()));
  fmt::print("prefill  {:.1f} tokens/s ({} sequences of {})\n",
             figures["prefill_tokens_per_s"].get<double>(), flags.batch, flags.prompt_tokens);
  fmt::print("decode   {:.1f} tokens/s ({} sequences, {} tokens each)\n",
             figures["decode_tokens_per_s"].get<double>(), flags.batch, flags.output_tokens);
}

absl::Status bench(const BenchFlags& flags, Interrupt& interrupt) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, flags.model.open());
  RETURN_IF_ERROR(check(flags, *model));
  ASSIGN_OR_RETURN(ServiceOptions options, flags.group.service_options(flags.model));
  ASSIGN_OR_RETURN(const std::unique_ptr<InferenceService> service,
                   start_service(*model, std::move(options), interrupt));
  interrupt.on_signal([&] { service->stop(); });
  std::vector<double> prefill, decode;
  ProgressLine line;
  for (int run = 0; run < flags.repeat; ++run) {
    line.spin(fmt::format("run {} of {}", run + 1, flags.repeat));
    ASSIGN_OR_RETURN(const Times times, run_once(flags, *service));
    prefill.push_back(flags.batch * flags.prompt_tokens / times.prefill_s);
    decode.push_back(flags.batch * (flags.output_tokens - 1) / times.decode_s);
  }
  line.clear();
  interrupt.on_signal(nullptr);
  const EngineStats stats = service->engine().stats();
  print(flags, {{"model", model->name()},
                {"prefill_tokens_per_s", median(prefill)},
                {"decode_tokens_per_s", median(decode)},
                {"weight_bytes", stats.group.weight_bytes},
                {"workers", service->options().workers},
                {"threads", service->options().threads},
                {"prompt_tokens", flags.prompt_tokens},
                {"output_tokens", flags.output_tokens},
                {"batch", flags.batch},
                {"repeat", flags.repeat},
                {"coordinator_us_per_step",
                 stats.steps > 0 ? stats.coordinator_ns / 1000.0 / stats.steps : 0.0},
                {"strategy", stats.group.strategy},
                {"numeric_class", stats.group.numeric_class},
                {"isa", isa_name(best_isa())},
                {"processor", cpu_model_name()}});
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_bench(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<BenchFlags>();
  command->app = parent.add_subcommand(
      "bench", "Measures tokens a second of prefill and of decode: medians of several runs.");
  flags->model.add_to(*command->app);
  flags->group.add_to(*command->app);
  command->app->add_option("--prompt-tokens", flags->prompt_tokens, "Of each sequence")
      ->capture_default_str();
  command->app->add_option("--output-tokens", flags->output_tokens, "Of each sequence")
      ->capture_default_str();
  command->app->add_option("--batch", flags->batch, "Sequences at once")->capture_default_str();
  command->app->add_option("--repeat", flags->repeat, "Runs; medians are printed")
      ->capture_default_str();
  command->app->add_flag("--json", flags->json, "One JSON object on one line");
  command->run = [flags](Interrupt& interrupt) { return bench(*flags, interrupt); };
  return command;
}

}  // namespace lockstep
