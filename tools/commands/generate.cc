// SPDX-License-Identifier: Apache-2.0
// `lockstep generate`: one prompt, or a file of requests as one batch, on workers started for it.
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <fstream>

#include "base/file.h"
#include "base/status.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/api/limits.h"
#include "tools/commands/answer.h"
#include "tools/commands/command.h"
#include "tools/commands/sampling_flags.h"
#include "tools/npy.h"
#include "tools/terminal.h"

namespace lockstep {
namespace {

struct GenerateFlags {
  ModelFlags model;
  GroupFlags group;
  std::string prompt;
  std::string prompt_ids;
  std::string prompt_embeds;
  std::string input;
  std::vector<std::string> stop;
  std::vector<int32_t> stop_ids;
  v1::GenerateRequest request;  // The other flags write here.
  bool json = false;
  bool logits = false;
  CLI::Option* prompt_option = nullptr;
  CLI::Option* prompt_ids_option = nullptr;
};

absl::Status parse_ids(const std::string& text, v1::TokenIds* ids) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int32_t id = 0;
    const auto [stop, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (stop < end && (*stop != ',' || stop + 1 == end))) {
      return invalid_argument("--prompt-ids: wanted numbers separated by commas, found \"{}\"",
                              std::string(at, end));
    }
    ids->add_ids(id);
    at = stop < end ? stop + 1 : end;
  }
  return absl::OkStatus();
}

absl::Status read_embeds(const std::string& path, const Model& model,
                         v1::GenerateRequest* message) {
  if (path.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string file, read_file(path, kMaxMessageBytes));
  const absl::StatusOr<NpyMatrix> matrix = parse_npy(file);
  if (!matrix.ok()) {
    return invalid_argument("--prompt-embeds {}: {}", path, message_of(matrix.status()));
  }
  if (matrix->cols != model.config().hidden_size) {
    return invalid_argument(
        "--prompt-embeds {}: wanted rows of the model's hidden size {}, found {}", path,
        model.config().hidden_size, matrix->cols);
  }
  message->set_prompt_embeds(std::string(matrix->bytes));
  return absl::OkStatus();
}

// What the flags say, without a prompt.
v1::GenerateRequest request_of(const GenerateFlags& flags) {
  v1::GenerateRequest message = flags.request;
  message.mutable_stop()->Add(flags.stop.begin(), flags.stop.end());
  message.mutable_stop_ids()->Add(flags.stop_ids.begin(), flags.stop_ids.end());
  return message;
}

absl::StatusOr<std::vector<Request>> requests_from_file(const GenerateFlags& flags,
                                                        const Model& model) {
  std::ifstream file(flags.input);
  if (!file) {
    return invalid_argument("--input {}: cannot be opened: {}", flags.input, error_text(errno));
  }
  const v1::GenerateRequest defaults = request_of(flags);
  std::vector<Request> requests;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto parse = [&]() -> absl::StatusOr<Request> {
      bool logits = false;
      ASSIGN_OR_RETURN(const v1::GenerateRequest own, generate_request_from_json(line, &logits));
      v1::GenerateRequest message = defaults;
      if (own.stop_size() > 0) message.clear_stop();
      if (own.stop_ids_size() > 0) message.clear_stop_ids();
      message.MergeFrom(own);
      ASSIGN_OR_RETURN(Request request, to_request(message, model));
      request.prompt_logits = logits || flags.logits;
      return request;
    };
    absl::StatusOr<Request> request = parse();
    if (!request.ok()) {
      return invalid_argument("{} line {}: {}", flags.input, number, message_of(request.status()));
    }
    requests.push_back(*std::move(request));
  }
  if (requests.empty()) return invalid_argument("--input {}: it has no request", flags.input);
  return requests;
}

absl::StatusOr<std::vector<Request>> make_requests(const GenerateFlags& flags, const Model& model) {
  const int given = (flags.prompt_option->count() > 0) + (flags.prompt_ids_option->count() > 0) +
                    !flags.input.empty();
  if (given != 1) {
    return invalid_argument("wanted one of --prompt, --prompt-ids and --input, found {}",
                            given == 0 ? "none" : "several");
  }
  const bool is_json = flags.json || !flags.input.empty();
  if (!is_json && (flags.logits || flags.request.has_logprobs())) {
    return invalid_argument("{}: wants --json beside it, or it is not seen",
                            flags.logits ? "--logits" : "--logprobs");
  }
  if (!flags.input.empty()) return requests_from_file(flags, model);
  v1::GenerateRequest message = request_of(flags);
  if (flags.prompt_option->count() > 0) {
    message.set_prompt(flags.prompt);
  } else {
    RETURN_IF_ERROR(parse_ids(flags.prompt_ids, message.mutable_prompt_ids()));
  }
  RETURN_IF_ERROR(read_embeds(flags.prompt_embeds, model, &message));
  ASSIGN_OR_RETURN(Request request, to_request(message, model));
  request.prompt_logits = flags.logits;
  return std::vector<Request>{std::move(request)};
}

// Text as it comes for one prompt at a terminal or in a pipe; a spinner where the text goes
// elsewhere.
absl::Status follow(Answer& answer, bool stream_text, ProgressLine& line) {
  const auto start = std::chrono::steady_clock::now();
  while (!answer.done()) {
    const std::string text = answer.wait_and_take();
    if (stream_text) {
      fmt::print("{}", text);
      std::fflush(stdout);
    } else {
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      line.spin(fmt::format("{} tokens, {:.1f} tokens/s", answer.completion_tokens(),
                            answer.completion_tokens() / std::max(seconds, 1e-3)));
    }
  }
  return answer.status();
}

absl::Status generate(const GenerateFlags& flags, Interrupt& interrupt, int* exit_code) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                   flags.model.open(WeightFiles::kNeeded, flags.group.automatic_chunk()));
  ASSIGN_OR_RETURN(const std::vector<Request> requests, make_requests(flags, *model));
  ASSIGN_OR_RETURN(ServiceOptions options, flags.group.service_options(flags.model));
  ASSIGN_OR_RETURN(const std::unique_ptr<InferenceService> service,
                   start_service(*model, std::move(options), interrupt));

  std::vector<Answer> answers;
  for (const Request& request : requests) {
    ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, service->engine().submit(request));
    answers.emplace_back(request, std::move(stream));
  }
  const Interrupt::Actions on_signal = interrupt.on_signal([&] {
    for (Answer& answer : answers) service->engine().cancel(answer.stream());
  });
  // A file of requests is answered in JSON, however many they are.
  const bool json = flags.json || !flags.input.empty();
  const bool stream_text = !json && requests[0].n == 1 && model->tokenizer() != nullptr;
  // A reader at a terminal sees the whole text; a pipe gets what was generated.
  if (stream_text && isatty(STDOUT_FILENO) == 1) fmt::print("{}", flags.prompt);
  const auto start = std::chrono::steady_clock::now();
  ProgressLine line;
  int64_t tokens = 0;
  for (Answer& answer : answers) {
    RETURN_IF_ERROR(follow(answer, stream_text, line));
    line.clear();
    tokens += answer.completion_tokens();
    if (json) {
      fmt::print("{}\n", answer.to_json(*model));
    } else if (!stream_text) {
      fmt::print("{}", answer.to_text());
    }
    std::fflush(stdout);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (stream_text) fmt::print("\n");
  std::fflush(stdout);  // Before what goes to stderr, where both are one terminal or file.
  if (!flags.json) {
    say(fmt::format("{} tokens in {:.2f} s: {:.1f} tokens/s on {}", tokens, seconds,
                    tokens / std::max(seconds, 1e-9),
                    count_of(service->options().workers, "worker")));
  }
  if (interrupt.signalled()) *exit_code = 130;
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_generate(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<GenerateFlags>();
  command->app = parent.add_subcommand(
      "generate",
      "Generates text from one prompt, or from a file of requests, and ends.\n"
      "--json prints {\"tokens\": [...], \"text\": \"...\", \"finish_reason\": \"...\"} on one "
      "line.");
  CLI::App& app = *command->app;
  flags->model.add_to(app);
  flags->model.chat.add_to(app);
  flags->group.add_to(app);
  flags->prompt_option = app.add_option("--prompt", flags->prompt, "The text to continue");
  flags->prompt_ids_option = app.add_option("--prompt-ids", flags->prompt_ids,
                                            "Token ids instead, fed exactly as given: 1,2,3");
  flags->model.takes_prompt_embeds = true;
  app.add_option("--prompt-embeds", flags->prompt_embeds,
                 "A .npy file of float32 [rows, hidden size]: in order, the rows of embeddings for "
                 "those of --prompt-ids that are -1 (an image's, for instance)")
      ->needs(flags->prompt_ids_option);
  app.add_option(
      "--input", flags->input,
      "A file of requests, one JSON object per line with the fields of GenerateRequest: run as "
      "one batch, answered in order with one JSON object per line. What a line leaves out is as "
      "the flags say");
  add_sampling_flags(app, flags->request);
  add_answer_flags(app, flags->request);
  app.add_option("--stop", flags->stop, "The text ends before this string (repeatable)")
      ->allow_extra_args(false);
  app.add_option("--stop-ids", flags->stop_ids, "Token ids that end the text: 1,2,3")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_flag("--json", flags->json, "One JSON object on one line");
  app.add_flag("--logits", flags->logits,
               "Add \"prompt_logits\": the last prompt position's logits (with --json)");
  command->run = [flags, shared = command.get()](Interrupt& interrupt) {
    return generate(*flags, interrupt, &shared->exit_code);
  };
  return command;
}

}  // namespace lockstep
