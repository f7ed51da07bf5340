// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/template/chat_template.h"

#include <algorithm>

#include "absl/strings/str_replace.h"
#include "base/system/file.h"
#include "coordinator/text/template/continued_message.h"
#include "coordinator/text/template/known_templates.h"
#include "coordinator/text/token_files.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;

// The possible names of a message's reasoning; templates read the first or the second.
constexpr std::string_view kReasoningFields[] = {"reasoning_content", "thinking", "reasoning"};

bool is_of_template(std::string_view, std::string_view) { return false; }

bool is_of_request(std::string_view key, std::string_view text) {
  constexpr std::string_view kRoles[] = {"system",    "developer", "user",
                                         "assistant", "tool",      "function"};
  return key != "role" || std::ranges::find(kRoles, text) == std::end(kRoles);
}

absl::StatusOr<OrderedJson> read_json_file(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  return parse_ordered_json(text, path.string(), {.reject_duplicate_keys = false});
}

absl::Status named(const std::string& what, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("{}: {}", what, message_of(status)));
}

// Clients must not see the server's folder: the file is named relative to it.
absl::Status without_folder(const std::filesystem::path& folder, const absl::Status& status) {
  if (folder.empty()) return status;
  const std::string prefix = (folder / "").string();
  return absl::Status(status.code(), absl::StrReplaceAll(message_of(status), {{prefix, ""}}));
}

bool is_list_of_objects(const OrderedJson& json) {
  return json.is_array() &&
         std::ranges::all_of(json, [](const OrderedJson& item) { return item.is_object(); });
}

absl::Status check(const TemplateInput& request) {
  if (!is_list_of_objects(request.messages)) {
    return invalid_argument("messages: must be a list of objects");
  }
  if (!request.tools.is_null() && !is_list_of_objects(request.tools)) {
    return invalid_argument("tools: must be a list of objects");
  }
  if (!request.documents.is_null() && !is_list_of_objects(request.documents)) {
    return invalid_argument("documents: must be a list of objects");
  }
  if (continues(request.continue_final_message) && request.add_generation_prompt) {
    return invalid_argument(
        "continue_final_message: must not be sent with add_generation_prompt; the answer either "
        "continues the last message or begins a new one");
  }
  return absl::OkStatus();
}

// Copies each message's reasoning to all names that templates read, as transformers does.
OrderedJson with_reasoning_names(const OrderedJson& messages) {
  OrderedJson renamed = OrderedJson::array();
  for (const OrderedJson& message : messages) {
    const auto* field = std::ranges::find_if(kReasoningFields, [&](std::string_view name) {
      const auto found = message.find(name);
      return found != message.end() && !found->is_null();
    });
    if (field == std::end(kReasoningFields)) {
      renamed.push_back(message);
      continue;
    }
    const OrderedJson reasoning = message.at(std::string(*field));
    OrderedJson made = {{"thinking", reasoning}};
    made.update(message);
    made["reasoning_content"] = reasoning;
    renamed.push_back(std::move(made));
  }
  return renamed;
}

}  // namespace

absl::StatusOr<ChatTemplate> ChatTemplate::load(const std::filesystem::path& folder,
                                                const std::string& chosen) {
  std::error_code error;
  const std::filesystem::path config_path = folder / "tokenizer_config.json";
  OrderedJson config;
  if (std::filesystem::exists(config_path, error)) {
    auto read = read_json_file(config_path);
    if (!read.ok()) return without_folder(folder, read.status());
    config = *std::move(read);
  }
  auto loaded = chosen.empty() ? find(folder, config) : load_chosen(chosen);
  if (!loaded.ok()) {
    return chosen.empty() ? without_folder(folder, loaded.status()) : loaded.status();
  }
  const absl::StatusOr<TokenFiles> tokens = read_token_files(folder);
  if (!tokens.ok()) return without_folder(folder, tokens.status());
  for (const auto& [name, text] : tokens->names) loaded->set_special_token(name, text);
  constexpr std::tm kAnyDay = {.tm_mday = 1, .tm_mon = 0, .tm_year = 100, .tm_wday = 6};
  for (Named& named : loaded->templates_) {
    named.traits = TemplateTraits::ask(
        named.source, [&](const TemplateInput& request) -> absl::StatusOr<std::string> {
          ASSIGN_OR_RETURN(MarkedText text, loaded->render(named, request, kAnyDay));
          return std::move(text.bytes);
        });
  }
  return loaded;
}

absl::StatusOr<ChatTemplate> ChatTemplate::find(const std::filesystem::path& folder,
                                                const OrderedJson& config) {
  ASSIGN_OR_RETURN(ChatTemplate of_files, find_files(folder));
  if (!of_files.templates_.empty()) return of_files;
  std::error_code error;
  const auto has_template = [](const OrderedJson& json) {
    return json.is_object() && json.contains("chat_template") && !json["chat_template"].is_null();
  };
  std::filesystem::path path = folder / "chat_template.json";
  OrderedJson json = config;
  if (std::filesystem::exists(path, error)) {
    ASSIGN_OR_RETURN(json, read_json_file(path));
    if (!has_template(json))
      return invalid_argument("{}: must have \"chat_template\"", path.string());
  } else if (path = folder / "tokenizer_config.json"; !has_template(config)) {
    return invalid_argument(
        "the model has no chat template (chat_template.jinja, chat_template.json, or "
        "\"chat_template\" in tokenizer_config.json); use --chat-template FILE, or a "
        "known name ({})",
        known_template_names());
  }
  auto loaded = from_json(json["chat_template"]);
  return loaded.ok() ? std::move(loaded) : named(path.string(), loaded.status());
}

absl::StatusOr<ChatTemplate> ChatTemplate::find_files(const std::filesystem::path& folder) {
  ChatTemplate loaded;
  std::error_code error;
  std::vector<std::filesystem::path> additional;
  std::filesystem::directory_iterator file(folder / "additional_chat_templates", error);
  for (; !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    if (file->path().extension() == ".jinja") additional.push_back(file->path());
  }
  std::ranges::sort(additional);
  if (const auto path = folder / "chat_template.jinja"; std::filesystem::exists(path, error)) {
    RETURN_IF_ERROR(loaded.add_file(additional.empty() ? "" : "default", path));
  }
  for (const std::filesystem::path& path : additional) {
    RETURN_IF_ERROR(loaded.add_file(path.stem().string(), path));
  }
  return loaded;
}

absl::StatusOr<ChatTemplate> ChatTemplate::load_chosen(const std::string& chosen) {
  ChatTemplate loaded;
  std::error_code error;
  if (const KnownTemplate* known = find_known_template(chosen)) {
    RETURN_IF_ERROR(loaded.add({}, std::string(known->source)));
  } else if (!std::filesystem::exists(chosen, error)) {
    return invalid_argument("--chat-template {}: must be an existing file or a known name: {}",
                            chosen, known_template_names());
  } else {
    RETURN_IF_ERROR(loaded.add_file({}, chosen));
  }
  return loaded;
}

absl::StatusOr<ChatTemplate> ChatTemplate::from_json(const OrderedJson& json) {
  ChatTemplate loaded;
  if (json.is_string()) {
    RETURN_IF_ERROR(loaded.add({}, json.get<std::string>()));
    return loaded;
  }
  OrderedJson list = json;
  if (json.is_object()) {
    list = OrderedJson::array();
    for (const auto& [name, source] : json.items()) {
      list.push_back({{"name", name}, {"template", source}});
    }
  }
  if (!list.is_array() || list.empty()) {
    return invalid_argument("chat_template: must be a string or a list of named templates");
  }
  for (const OrderedJson& item : list) {
    const bool fits = item.is_object() && item.contains("name") && item.contains("template") &&
                      item["name"].is_string() && item["template"].is_string();
    if (!fits) {
      return invalid_argument(
          "chat_template: must have {{\"name\": ..., \"template\": ...}} in its list");
    }
    const auto name = item["name"].get<std::string>();
    const absl::Status status = loaded.add(name, item["template"].get<std::string>());
    if (!status.ok()) return named(fmt::format("template \"{}\"", one_line(name)), status);
  }
  return loaded;
}

absl::Status ChatTemplate::add(const std::string& name, const std::string& source) {
  ASSIGN_OR_RETURN(jinja::Template parsed, jinja::Template::parse(source));
  std::erase_if(templates_, [&](const Named& other) { return other.name == name; });
  templates_.push_back({name, source, std::move(parsed)});
  return absl::OkStatus();
}

absl::Status ChatTemplate::add_file(const std::string& name, const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string source, read_file(path, kMaxFileBytes));
  const absl::Status status = add(name, source);
  return status.ok() ? status : named(path.string(), status);
}

bool ChatTemplate::reads(std::string_view variable) const {
  return std::ranges::any_of(templates_,
                             [&](const Named& named) { return named.parsed.reads(variable); });
}

bool ChatTemplate::mentions(std::string_view text) const {
  return std::ranges::any_of(
      templates_, [&](const Named& named) { return named.source.find(text) != std::string::npos; });
}

std::string ChatTemplate::name(bool has_tools, bool has_documents) const {
  const absl::StatusOr<const Named*> chosen = choose(has_tools, has_documents);
  if (!chosen.ok()) return "";
  return (*chosen)->name.empty() ? "default" : (*chosen)->name;
}

std::vector<std::string_view> ChatTemplate::sources() const {
  std::vector<std::string_view> sources;
  for (const Named& named : templates_) sources.push_back(named.source);
  return sources;
}

bool ChatTemplate::is_special_token_name(std::string_view name) {
  return std::ranges::find(kTokenNames, name) != std::end(kTokenNames);
}

void ChatTemplate::set_special_token(const std::string& name, const std::string& text) {
  special_tokens_[name] = text;
}

absl::StatusOr<const ChatTemplate::Named*> ChatTemplate::choose(bool has_tools,
                                                                bool has_documents) const {
  if (templates_.size() == 1 && templates_[0].name.empty()) return &templates_[0];
  const std::string_view wanted[] = {has_tools ? "tool_use" : "", has_documents ? "rag" : "",
                                     "default"};
  for (const std::string_view name : wanted) {
    const auto found = std::ranges::find(templates_, name, &Named::name);
    if (!name.empty() && found != templates_.end()) return &*found;
  }
  std::string names;
  for (const Named& entry : templates_) {
    names += (names.empty() ? "" : ", ") + one_line(entry.name);
  }
  return invalid_argument("there is no chat template named \"default\", only: {}", names);
}

absl::StatusOr<MarkedText> ChatTemplate::render(const TemplateInput& request,
                                                const std::tm& now) const {
  RETURN_IF_ERROR(check(request));
  ASSIGN_OR_RETURN(const Named* chosen,
                   choose(!request.tools.is_null(), !request.documents.is_null()));
  return render(*chosen, request, now);
}

const TemplateTraits& ChatTemplate::traits(bool has_tools, bool has_documents) const {
  static const TemplateTraits kNotAsked;
  const absl::StatusOr<const Named*> chosen = choose(has_tools, has_documents);
  return chosen.ok() ? (*chosen)->traits : kNotAsked;
}

absl::StatusOr<MarkedText> ChatTemplate::render(const Named& chosen, const TemplateInput& request,
                                                const std::tm& now) const {
  OrderedJson messages = with_reasoning_names(request.messages);
  std::optional<ContinuedMessage> continued;
  if (continues(request.continue_final_message)) {
    ASSIGN_OR_RETURN(continued, ContinuedMessage::mark(request.continue_final_message,
                                                       chosen.source, &messages));
  }
  const OrderedJson add_generation_prompt = request.add_generation_prompt;
  std::vector<jinja::Variable> variables;
  for (const auto& [name, value] : special_tokens_.items()) {
    variables.push_back({name, &value, is_of_template});
  }
  for (const auto& [name, value] : request.variables.items()) {
    variables.push_back({name, &value, is_of_request});
  }
  variables.push_back({"messages", &messages, is_of_request});
  variables.push_back({std::string(request.tools_variable), &request.tools, is_of_request});
  variables.push_back({"documents", &request.documents, is_of_request});
  variables.push_back({"add_generation_prompt", &add_generation_prompt, is_of_request});
  ASSIGN_OR_RETURN(MarkedText text, chosen.parsed.render(variables, now));
  if (continued.has_value()) RETURN_IF_ERROR(continued->cut(&text));
  return text;
}

}  // namespace lockstep
