// SPDX-License-Identifier: Apache-2.0
// `lockstep chat`: a conversation at the terminal, or one turn per line of standard input, with its
// own workers.
#include <unistd.h>

#include <algorithm>

#include "base/status.h"
#include "tools/commands/command.h"
#include "tools/commands/text/conversation.h"
#include "tools/commands/text/sampling_flags.h"
#include "tools/line_reader.h"

namespace lockstep {
namespace {

constexpr char kHelp[] =
    "/reset       forget the conversation, except the system prompt\n/regenerate  answer the last "
    "message again\n/stats       tokens and times of the last answer\n/quit        end the chat, "
    "like Ctrl-D; Ctrl-C stops only an answer\n";

struct ChatCommandFlags {
  RunOptions run;
  std::string system;
  v1::GenerateRequest request;  // Sampling.
};

class Chat {
 public:
  Chat(Conversation* conversation, int64_t context)
      : conversation_(*conversation), context_(context) {}

  // Answers a line, or runs it as a command. False: the chat is over.
  bool take(const std::string& line) {
    if (line.find_first_not_of(" \t") == std::string::npos) return true;
    if (line == "/quit" || line == "/exit") return false;
    if (line == "/reset") {
      conversation_.reset();
    } else if (line == "/stats") {
      print_stats();
    } else if (line == "/regenerate") {
      finish(conversation_.regenerate(printer()));
    } else if (line == "/help" || line == "/?") {
      fmt::print(stderr, "{}", kHelp);
    } else if (line[0] == '/') {
      fmt::print(stderr, "there is no command {}; /help lists the commands\n", printable(line));
    } else {
      finish(conversation_.say(line, printer()));
    }
    return true;
  }

  // Whether an answer failed.
  bool failed() const { return failed_; }

 private:
  // Thoughts are shown only at a terminal, dimmed.
  Conversation::Show printer() {
    return [this](std::string_view text, bool is_thought) {
      if (is_thought && !at_terminal_) return;
      if (at_terminal_ && is_thought != in_thought_) {
        fmt::print("{}", is_thought ? "\033[2m" : "\033[0m\n");
      }
      in_thought_ = is_thought;
      fmt::print("{}", text);
      std::fflush(stdout);
    };
  }

  void finish(const absl::StatusOr<AnswerStats>& stats) {
    if (at_terminal_ && in_thought_) fmt::print("\033[0m");
    in_thought_ = false;
    if (stats.ok()) {
      last_ = *stats;
      fmt::print("{}\n", stats->stopped ? " [stopped]" : "");
    } else {
      failed_ = true;
      fmt::print(stderr, "lockstep: {}\n", message_of(stats.status()));
    }
    std::fflush(stdout);
  }

  void print_stats() const {
    fmt::print(stderr,
               "{} messages; {} of {} tokens of context; last answer: {} tokens, the first after "
               "{:.2f} s, {:.1f} tokens/s\n",
               conversation_.messages(), last_.prompt_tokens + last_.tokens, context_, last_.tokens,
               last_.first_seconds,
               static_cast<double>(last_.tokens) / std::max(last_.seconds, 1e-9));
  }

  Conversation& conversation_;
  const int64_t context_;
  const bool at_terminal_ = isatty(STDOUT_FILENO) == 1;
  bool in_thought_ = false;
  bool failed_ = false;
  AnswerStats last_;
};

void prompt_for_line() {
  if (isatty(STDIN_FILENO) == 1) fmt::print(stderr, "> ");
}

absl::Status chat(const ChatCommandFlags& flags, Interrupt& interrupt, int* exit_code) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, flags.run.open());
  RETURN_IF_ERROR(model->chat_template().status());
  if (model->tokenizer() == nullptr) {
    return invalid_argument("{}, which chat needs", model->without_tokenizer());
  }
  ASSIGN_OR_RETURN(ServiceOptions options, flags.run.service_options());
  ASSIGN_OR_RETURN(const std::unique_ptr<InferenceService> service,
                   start_service(*model, std::move(options), interrupt));
  Conversation conversation(model.get(), &service->engine(), flags.request, flags.system);
  Chat chat(&conversation, model->max_context());
  LineReader input;
  const Interrupt::Actions on_ctrl_c = interrupt.on_ctrl_c([&] { conversation.stop(); });
  const Interrupt::Actions on_signal = interrupt.on_signal([&] {
    input.stop();
    conversation.stop();
  });
  if (isatty(STDIN_FILENO) == 1) {
    fmt::print(stderr, "{}; /help lists the commands\n", model->name());
  }
  prompt_for_line();
  for (auto line = input.next(); line.has_value() && chat.take(*line); line = input.next()) {
    prompt_for_line();
  }
  if (interrupt.signalled()) return absl::CancelledError("the chat was ended");
  // A script must see that a line had no answer; at a terminal the user saw it.
  if (chat.failed() && isatty(STDIN_FILENO) != 1) *exit_code = 1;
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_chat(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<ChatCommandFlags>();
  command->app = parent.add_subcommand("chat",
                                       "Chats with MODEL, using its chat template. If standard "
                                       "input is not a terminal, each of its lines is a message.");
  CLI::App& app = *command->app;
  app.footer(kHelp);
  add_flags(app, flags->run.model_flags());
  add_chat_flags(app, flags->run.model);
  add_flags(app, flags->run.group_flags());
  add_flags(app, {{"--system", &flags->system, "The system prompt"}});
  add_sampling_flags(app, flags->request);
  command->run = [flags, shared = command.get()](Interrupt& interrupt) {
    return chat(*flags, interrupt, &shared->exit_code);
  };
  return command;
}

}  // namespace lockstep
