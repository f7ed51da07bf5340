// SPDX-License-Identifier: Apache-2.0
// `lockstep generate`: one prompt, or a file of requests as one batch, with its own workers.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fstream>
#include <iostream>

#include "base/status.h"
#include "base/system/file.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/api/limits.h"
#include "tools/commands/command.h"
#include "tools/commands/text/bad_lines.h"
#include "tools/commands/text/batch.h"
#include "tools/commands/text/sampling_flags.h"
#include "tools/npy.h"
#include "tools/terminal.h"

namespace lockstep {
namespace {

struct GenerateFlags {
  RunOptions run;
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
      return invalid_argument("--prompt-ids: must be numbers separated by commas, found \"{}\"",
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
  const int64_t wanted = model.config().embedding_width;
  if (matrix->cols != wanted) {
    return invalid_argument(
        "--prompt-embeds {}: must have rows of the model's hidden size {}, found {}", path, wanted,
        matrix->cols);
  }
  message->set_prompt_embeds(std::string(matrix->bytes));
  return absl::OkStatus();
}

// The request of the flags, without a prompt.
v1::GenerateRequest request_of(const GenerateFlags& flags) {
  v1::GenerateRequest message = flags.request;
  message.mutable_stop()->Add(flags.stop.begin(), flags.stop.end());
  message.mutable_stop_ids()->Add(flags.stop_ids.begin(), flags.stop_ids.end());
  return message;
}

// One request, or one per line of --input, good or bad.
struct Requests {
  std::vector<absl::StatusOr<EngineRequest>> parsed;
  std::vector<int> lines;  // By request, if --input is given.
};

absl::StatusOr<EngineRequest> request_of_line(const GenerateFlags& flags, const std::string& line,
                                              const Model& model) {
  bool logits = false;
  ASSIGN_OR_RETURN(const v1::GenerateRequest own, generate_request_from_json(line, &logits));
  v1::GenerateRequest message = request_of(flags);
  if (own.stop_size() > 0) message.clear_stop();
  if (own.stop_ids_size() > 0) message.clear_stop_ids();
  message.MergeFrom(own);
  ASSIGN_OR_RETURN(EngineRequest request, to_request(message, model));
  request.prompt_logits = logits || flags.logits;
  return request;
}

absl::StatusOr<Requests> requests_of_input(const GenerateFlags& flags, const Model& model) {
  std::ifstream file;
  const bool is_file = flags.input != "-";
  if (is_file) file.open(flags.input);
  if (!file) {
    return invalid_argument("--input {}: cannot be opened: {}", flags.input, error_text(errno));
  }
  Requests requests;
  std::string line;
  for (int number = 1; std::getline(is_file ? file : std::cin, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    requests.parsed.push_back(request_of_line(flags, line, model));
    requests.lines.push_back(number);
  }
  if (requests.lines.empty()) {
    return invalid_argument("--input {}: must have at least one request, found none", flags.input);
  }
  return requests;
}

absl::StatusOr<Requests> make_requests(const GenerateFlags& flags, const Model& model) {
  const int given = (flags.prompt_option->count() > 0) + (flags.prompt_ids_option->count() > 0) +
                    !flags.input.empty();
  if (given != 1) {
    return invalid_argument("must have one of --prompt, --prompt-ids and --input, found {}",
                            given == 0 ? "none" : "several");
  }
  const bool is_json = flags.json || !flags.input.empty();
  if (!is_json && (flags.logits || flags.request.has_logprobs())) {
    return invalid_argument("{}: must be used with --json, which shows it",
                            flags.logits ? "--logits" : "--logprobs");
  }
  if (!flags.input.empty()) return requests_of_input(flags, model);
  v1::GenerateRequest message = request_of(flags);
  if (flags.prompt_option->count() > 0) {
    message.set_prompt(flags.prompt);
  } else {
    RETURN_IF_ERROR(parse_ids(flags.prompt_ids, message.mutable_prompt_ids()));
  }
  RETURN_IF_ERROR(read_embeds(flags.prompt_embeds, model, &message));
  ASSIGN_OR_RETURN(EngineRequest request, to_request(message, model));
  request.prompt_logits = flags.logits;
  return Requests{.parsed = {std::move(request)}};
}

// Waits for the answer. Prints its text as it arrives if `stream_text`; otherwise shows a spinner.
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

// Prints the answers in order. `lines`: the requests' lines of --input; empty: one request.
absl::Status answer_all(const GenerateFlags& flags, const Model& model,
                        const std::vector<int>& lines, bool stream_text, Batch& batch,
                        const Interrupt& interrupt, int64_t* tokens) {
  const bool json = flags.json || !flags.input.empty();
  BadLines bad(flags.input == "-" ? "standard input" : flags.input);
  ProgressLine progress;
  for (size_t i = 0; i < batch.size(); ++i) {
    const absl::StatusOr<Answer*> answer = batch.start(i);
    const absl::Status status =
        answer.ok() ? follow(**answer, stream_text, progress) : answer.status();
    progress.clear();
    if (!answer.ok() && interrupt.signalled()) break;
    if (!status.ok() && lines.empty()) return status;
    if (answer.ok()) *tokens += (*answer)->completion_tokens();
    if (!status.ok()) {
      bad.print(lines[i], status);
    } else if (json) {
      fmt::print("{}\n", (*answer)->to_json(model));
    } else if (!stream_text) {
      fmt::print("{}", (*answer)->to_text());
    }
    std::fflush(stdout);
  }
  return bad.status();
}

absl::Status generate(const GenerateFlags& flags, Interrupt& interrupt, int* exit_code) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, flags.run.open());
  ASSIGN_OR_RETURN(Requests requests, make_requests(flags, *model));
  ASSIGN_OR_RETURN(ServiceOptions options, flags.run.service_options());
  const int workers = options.cluster.workers;
  const auto is_good = [](const absl::StatusOr<EngineRequest>& request) { return request.ok(); };
  std::unique_ptr<InferenceService> service;  // Null if there is nothing to run.
  if (std::ranges::any_of(requests.parsed, is_good)) {
    ASSIGN_OR_RETURN(service, start_service(*model, std::move(options), interrupt));
  }

  // A terminal shows the prompt too; a pipe gets only the generated text.
  const bool stream_text = !flags.json && requests.lines.empty() && requests.parsed[0]->n == 1 &&
                           model->tokenizer() != nullptr;
  if (stream_text && isatty(STDOUT_FILENO) == 1) fmt::print("{}", flags.prompt);
  Batch batch(service != nullptr ? &service->engine() : nullptr, std::move(requests.parsed));
  const Interrupt::Actions on_signal = interrupt.on_signal([&] { batch.cancel(); });
  const auto start = std::chrono::steady_clock::now();
  int64_t tokens = 0;
  const absl::Status status =
      answer_all(flags, *model, requests.lines, stream_text, batch, interrupt, &tokens);
  if (!status.ok() && requests.lines.empty()) return status;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (stream_text) fmt::print("\n");
  std::fflush(stdout);  // Before output to stderr, in case both are one terminal or file.
  if (service != nullptr && !flags.json) {
    say(fmt::format("{} tokens in {:.2f} s: {:.1f} tokens/s on {}", tokens, seconds,
                    tokens / std::max(seconds, 1e-9), count_of(workers, "worker")));
  }
  if (!interrupt.signalled()) return status;
  *exit_code = 130;
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_generate(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<GenerateFlags>();
  command->app = parent.add_subcommand(
      "generate",
      "Generates text from one prompt, or from a file of requests, and exits.\n--json prints "
      "{\"tokens\": [...], \"text\": \"...\", \"finish_reason\": \"...\"} on one line.");
  CLI::App& app = *command->app;
  add_flags(app, flags->run.model_flags());
  add_chat_flags(app, flags->run.model);
  add_flags(app, flags->run.group_flags());
  flags->run.model.takes_prompt_embeds = true;
  add_flags(app, {{"--prompt", &flags->prompt, "The text to continue"},
                  {"--prompt-ids", &flags->prompt_ids, "Token ids, in place of --prompt: 1,2,3"},
                  {"--prompt-embeds", &flags->prompt_embeds,
                   "A .npy file of float32 [rows, hidden size]. A row is an embedding, for "
                   "instance of a part of an image; each -1 in --prompt-ids takes the next row",
                   FlagValues{.form = "FILE"}},
                  {"--input", &flags->input,
                   "A file of requests, or - for standard input. Each line is a JSON object with "
                   "fields of GenerateRequest. All requests run together. Each gets one line of "
                   "output, in the order of the input: an answer, or {\"error\": ...}. The other "
                   "flags give the defaults for all requests",
                   FlagValues{.form = "FILE|-"}}});
  flags->prompt_option = app.get_option("--prompt");
  flags->prompt_ids_option = app.get_option("--prompt-ids");
  app.get_option("--prompt-embeds")->needs(flags->prompt_ids_option);
  add_sampling_flags(app, flags->request);
  add_answer_flags(app, flags->request);
  add_flags(
      app,
      {{"--stop", &flags->stop, "The text ends before this string (repeatable)"},
       {"--stop-ids", &flags->stop_ids, "Token ids that end the text: 1,2,3",
        FlagValues{.has_commas = true}},
       {"--json", &flags->json, "One JSON object on one line"},
       {"--logits", &flags->logits,
        "Print the logits of the prompt's last position, as \"prompt_logits\" (with --json)"}});
  command->run = [flags, shared = command.get()](Interrupt& interrupt) {
    return generate(*flags, interrupt, &shared->exit_code);
  };
  return command;
}

}  // namespace lockstep
