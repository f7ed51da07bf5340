// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/prompt_losses.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/field_error.h"
#include "base/log_limit.h"
#include "base/status.h"
#include "base/text_map.h"
#include "coordinator/api/chat/message_text.h"
#include "coordinator/text/jinja/strings/characters.h"
#include "coordinator/text/text_search.h"

namespace lockstep {
namespace {

// Finds texts in roughly the order in which the prompt has them.
class Search {
 public:
  explicit Search(std::string_view prompt) : prompt_(prompt) {}

  // Whether the prompt has the text, unchanged or as JSON writes it, after the text found last; if
  // `anywhere`, also before it. Blanks around the text are ignored. Always false after a few failed
  // searches, because each one reads the whole prompt.
  bool finds(std::string_view text, bool anywhere) {
    const size_t begin = jinja::blanks_end(text, 0);
    if (begin == text.size()) return true;
    text = text.substr(begin, jinja::blanks_begin(text) - begin);
    if (finds_form(text, anywhere)) return true;
    std::string json =
        OrderedJson(text).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
    json = json.substr(1, json.size() - 2);
    return json != text && finds_form(json, anywhere);
  }

  // A template that takes lists shows the parts separately.
  bool finds_content(const v1::ChatMessage& message) {
    const auto& parts = message.content_parts();
    if (parts.empty()) return finds(message.content(), /*anywhere=*/true);
    return std::ranges::all_of(
        parts, [&](const std::string& part) { return finds(part, /*anywhere=*/true); });
  }

 private:
  bool finds_form(std::string_view text, bool anywhere) {
    if (finds_after(text, after_)) return true;
    return anywhere && finds_after(text, 0);
  }
  bool finds_after(std::string_view text, size_t begin) {
    if (tries_ == 0) return false;
    const size_t at = find_text(prompt_, text, begin);
    if (at == prompt_.npos) {
      --tries_;
      return false;
    }
    after_ = at + text.size();
    return true;
  }

  const std::string_view prompt_;
  size_t after_ = 0;
  int tries_ = 16;
};

// Whether a quick search finds every part of the conversation. A part that it does not find may
// still be there in another form.
bool has_all(const v1::ChatMessages& chat, const TemplateInput& request, bool with_tools,
             std::string_view prompt) {
  Search search(prompt);
  for (const v1::ChatMessage& message : chat.messages()) {
    const bool is_answer = message.role() == "assistant";
    if (!is_answer && !search.finds_content(message)) return false;
    for (const v1::ToolCall& call : message.tool_calls()) {
      if (!search.finds(call.name(), /*anywhere=*/false)) return false;
    }
  }
  if (!with_tools) return true;
  Search tools(prompt);
  for (const OrderedJson& tool : request.tools) {
    const OrderedJson function = tool.value("function", OrderedJson());
    const OrderedJson name = function.is_object() ? function.value("name", OrderedJson()) : nullptr;
    if (name.is_string() && !tools.finds(name.get<std::string>(), /*anywhere=*/false)) return false;
  }
  return true;
}

// check_losses() renders the conversation again with these texts in place of its parts, and looks
// for them in the new prompt. They have only letters and digits, which no escaping changes. Each
// has an end mark, so that none is a prefix of another. Four letters after kMark say which kind of
// part the text replaces.
constexpr std::string_view kMark = "probe";
constexpr std::string_view kMarkEnd = "end";
std::string text_mark(int message) { return fmt::format("{}text{}{}", kMark, message, kMarkEnd); }
std::string call_mark(int message, int call) {
  return fmt::format("{}call{}x{}{}", kMark, message, call, kMarkEnd);
}
std::string tool_mark(int tool) { return fmt::format("{}tool{}{}", kMark, tool, kMarkEnd); }

v1::ChatMessages marked(const v1::ChatMessages& chat, const OrderedJson& tools) {
  v1::ChatMessages made = chat;
  for (int i = 0; i < made.messages_size(); ++i) {
    v1::ChatMessage& message = *made.mutable_messages(i);
    if (has_text(message)) message.set_content(text_mark(i));
    message.clear_content_parts();
    for (int call = 0; call < message.tool_calls_size(); ++call) {
      message.mutable_tool_calls(call)->set_arguments(
          OrderedJson{{"key", call_mark(i, call)}}.dump());
    }
  }
  for (int i = 0; i < made.tools_size(); ++i) {
    OrderedJson tool = tools[i];
    if (tool.contains("function") && tool["function"].is_object()) {
      tool["function"]["name"] = tool_mark(i);
      made.set_tools(i, tool.dump());
    }
  }
  return made;
}

TextSet<std::string> marks_in(std::string_view prompt) {
  TextSet<std::string> marks;
  for (size_t at = prompt.find(kMark); at != prompt.npos; at = prompt.find(kMark, at + 1)) {
    const size_t digits = std::min(at + kMark.size() + 4, prompt.size());
    const size_t end = prompt.find_first_not_of("0123456789x", digits);
    if (end != prompt.npos) marks.emplace(prompt.substr(at, end + kMarkEnd.size() - at));
  }
  return marks;
}

// Returns an error for a missing part that matters; logs one that does not.
absl::Status report_loss(const std::string& field, const std::string& what, bool matters) {
  absl::Status status =
      field_error(field, "the model's chat template leaves {} out of this conversation", what);
  if (matters) return status;
  log_loss(message_of(status));
  return absl::OkStatus();
}

absl::Status check_message(const v1::ChatMessages& chat, int index, bool is_last_turn,
                           bool is_question_last, const TextSet<std::string>& marks) {
  const v1::ChatMessage& message = chat.messages(index);
  const std::string field = fmt::format("chat.messages[{}]", index);
  const bool is_instruction = message.role() == "system" || message.role() == "developer";
  const bool is_answer = message.role() == "assistant";
  if (!is_answer && has_text(message) && !marks.contains(text_mark(index))) {
    RETURN_IF_ERROR(report_loss(field + ".content",
                                fmt::format("the text of the role {}", printable(message.role())),
                                is_instruction ? is_question_last : is_last_turn));
  }
  for (int call = 0; call < message.tool_calls_size(); ++call) {
    if (marks.contains(call_mark(index, call))) continue;
    RETURN_IF_ERROR(
        report_loss(fmt::format("{}.tool_calls[{}]", field, call), "the call", is_last_turn));
  }
  return absl::OkStatus();
}

}  // namespace

void log_loss(const std::string& line) {
  static LogLimit limit{std::chrono::seconds(1)};
  if (const int64_t lines = limit.count(); lines > 0) {
    spdlog::warn("{}{}", line, lines > 1 ? fmt::format(" (and {} more)", lines - 1) : "");
  }
}

absl::Status check_losses(const v1::ChatMessages& chat, const TemplateInput& request,
                          const TemplateTraits& traits, std::string_view prompt,
                          RenderChat render) {
  if (!traits.asked || chat.messages().empty()) return absl::OkStatus();
  const bool with_tools = traits.tools == Fate::kShown;
  if (has_all(chat, request, with_tools, prompt)) return absl::OkStatus();
  const absl::StatusOr<std::string> other = render(marked(chat, request.tools));
  if (!other.ok()) return absl::OkStatus();
  const TextSet<std::string> marks = marks_in(*other);

  const int count = chat.messages_size();
  int last_question = count - 1;
  while (last_question >= 0 && chat.messages(last_question).role() != "user") --last_question;
  const bool is_question_last = last_question == count - 1;
  for (int i = 0; with_tools && i < chat.tools_size(); ++i) {
    if (marks.contains(tool_mark(i))) continue;
    RETURN_IF_ERROR(report_loss(fmt::format("chat.tools[{}]", i), "the tool", is_question_last));
  }
  for (int i = 0; i < count; ++i) {
    RETURN_IF_ERROR(check_message(chat, i, i >= last_question, is_question_last, marks));
  }
  return absl::OkStatus();
}

}  // namespace lockstep
