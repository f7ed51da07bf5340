// SPDX-License-Identifier: Apache-2.0
// `lockstep template`: renders messages to a prompt with a model's chat template.
#include <algorithm>
#include <ctime>
#include <iostream>
#include <iterator>

#include "base/json.h"
#include "base/status.h"
#include "coordinator/model/model_folder.h"
#include "coordinator/text/template/chat_template.h"
#include "tools/commands/command.h"

namespace lockstep {
namespace {

constexpr char kInput[] =
    "Standard input is one JSON object, or with --jsonl one per line:\n  messages                "
    "the conversation: a list of objects such as\n                          {\"role\": \"user\", "
    "\"content\": \"Hello\"}\n  chat_template           the template's text, or a list of "
    "{\"name\", \"template\"}\n  model                   in place of chat_template: the folder of "
    "a model with a chat template\n  tools, documents        lists of objects, passed to the "
    "template\n  "
    "add_generation_prompt   true: the prompt ends where the assistant's answer begins\n  "
    "continue_final_message  true: the prompt ends after the last message's text\n  bos_token, "
    "eos_token    and other special tokens (default: the model's)\n  enable_thinking, thinking, "
    "reasoning_effort\n                          passed to the template; any other key only if "
    "--template-vars names it\n\nA line of output is {\"text\": ...}, or {\"error\": \"line N: "
    "...\"} for an error in line N of the template.";

struct TemplateFlags {
  ModelOptions model;
  bool jsonl = false;
  bool ranges = false;
};

// Loads the template of a model. `path` names the model, like MODEL in other commands, but a folder
// needs no config.json here.
absl::StatusOr<ChatTemplate> load_of_model(const std::string& path) {
  std::error_code error;
  std::filesystem::path folder = path;
  if (!std::filesystem::is_directory(folder, error)) {
    ASSIGN_OR_RETURN(folder, find_model_folder(path));
  }
  return ChatTemplate::load(folder);
}

// Keeps the last template: most lines have the same one.
class Templates {
 public:
  absl::Status open(const TemplateFlags& flags) {
    if (!flags.model.chat_template.empty()) {
      ASSIGN_OR_RETURN(fallback_, ChatTemplate::load_chosen(flags.model.chat_template));
    } else if (!flags.model.path.empty()) {
      ASSIGN_OR_RETURN(fallback_, load_of_model(flags.model.path));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<const ChatTemplate*> of(const OrderedJson& line) {
    for (const char* key : {"chat_template", "model"}) {
      if (!line.contains(key) || line[key].is_null()) continue;
      if (std::string name = key + line[key].dump(); last_ == nullptr || name != last_name_) {
        auto loaded = load(key, line[key]);
        RETURN_IF_ERROR(loaded.status());
        last_ = std::make_unique<ChatTemplate>(*std::move(loaded));
        last_name_ = std::move(name);
      }
      return last_.get();
    }
    if (fallback_.has_value()) return &*fallback_;
    return invalid_argument(
        "chat template: must be given by \"chat_template\" or \"model\", or MODEL or "
        "--chat-template, found none");
  }

 private:
  static absl::StatusOr<ChatTemplate> load(std::string_view key, const OrderedJson& value) {
    if (key == "chat_template") return ChatTemplate::from_json(value);
    if (!value.is_string()) return invalid_argument("model: must be a folder's name");
    return load_of_model(value.get<std::string>());
  }

  std::optional<ChatTemplate> fallback_;
  std::unique_ptr<ChatTemplate> last_;
  std::string last_name_;
};

absl::StatusOr<bool> read_bool(const OrderedJson& line, const char* key) {
  if (!line.contains(key) || line[key].is_null()) return false;
  if (!line[key].is_boolean()) return invalid_argument("{}: must be true or false", key);
  return line[key].get<bool>();
}

bool is_passed(const TemplateFlags& flags, const std::string& key) {
  const auto& always = ChatTemplate::kThinkingVariables;
  return std::ranges::find(always, key) != std::end(always) ||
         std::ranges::find(flags.model.template_variables, key) !=
             flags.model.template_variables.end();
}

absl::StatusOr<MarkedText> render(const TemplateFlags& flags, const OrderedJson& line,
                                  Templates* templates) {
  if (!line.is_object()) return invalid_argument("must be a JSON object");
  ASSIGN_OR_RETURN(const ChatTemplate* found, templates->of(line));
  ChatTemplate chosen = *found;
  TemplateInput request;
  request.messages = line.value("messages", OrderedJson());
  request.tools = line.value("tools", OrderedJson());
  request.documents = line.value("documents", OrderedJson());
  request.continue_final_message = line.value("continue_final_message", OrderedJson(false));
  ASSIGN_OR_RETURN(request.add_generation_prompt, read_bool(line, "add_generation_prompt"));
  for (const auto& [key, value] : line.items()) {
    if (ChatTemplate::is_special_token_name(key) && value.is_string()) {
      chosen.set_special_token(key, value.get<std::string>());
    } else if (is_passed(flags, key)) {
      request.variables[key] = value;
    }
  }
  const std::time_t seconds = std::time(nullptr);
  std::tm now{};
  localtime_r(&seconds, &now);
  return chosen.render(request, now);
}

OrderedJson shown(const TemplateFlags& flags, const absl::StatusOr<MarkedText>& text) {
  if (!text.ok()) return {{"error", message_of(text.status())}};
  OrderedJson line = {{"text", text->bytes}};
  if (!flags.ranges) return line;
  line["from_request"] = OrderedJson::array();
  for (const ByteRange& range : text->from_request) {
    line["from_request"].push_back({range.begin, range.end});
  }
  return line;
}

absl::Status print_template(const TemplateFlags& flags) {
  Templates templates;
  RETURN_IF_ERROR(templates.open(flags));
  if (!flags.jsonl) {
    const std::string input(std::istreambuf_iterator<char>(std::cin), {});
    ASSIGN_OR_RETURN(const OrderedJson line, parse_ordered_json(input, "standard input"));
    ASSIGN_OR_RETURN(const MarkedText text, render(flags, line, &templates));
    fmt::print("{}", flags.ranges ? shown(flags, text).dump() + "\n" : text.bytes);
    return absl::OkStatus();
  }
  std::string input;
  for (int number = 1; std::getline(std::cin, input); ++number) {
    if (input.empty()) continue;
    const auto line = parse_ordered_json(input, fmt::format("line {} of the input", number));
    const auto text =
        line.ok() ? render(flags, *line, &templates) : absl::StatusOr<MarkedText>(line.status());
    fmt::print("{}\n", shown(flags, text).dump());
  }
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_template(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<TemplateFlags>();
  command->app = parent.add_subcommand(
      "template", "Prints the prompt that a model's chat template makes from a conversation.");
  command->app->footer(kInput);
  add_flags(*command->app, {{"MODEL", &flags->model.path,
                             "The model whose chat template is used if the input names none",
                             FlagValues{.form = "FOLDER"}}});
  add_chat_flags(*command->app, flags->model);
  add_flags(*command->app,
            {{"--jsonl", &flags->jsonl,
              "Standard input has one JSON object per line; each gets one line of output"},
             {"--ranges", &flags->ranges,
              "Print, as \"from_request\", the ranges of bytes that come from the input: special "
              "tokens in these ranges stay text"}});
  command->run = [flags](Interrupt&) { return print_template(*flags); };
  return command;
}

}  // namespace lockstep
