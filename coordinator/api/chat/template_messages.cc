// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/chat/template_messages.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/field_error.h"
#include "base/status.h"
#include "base/text_map.h"
#include "coordinator/api/chat/message_text.h"
#include "coordinator/api/prompt_losses.h"

namespace lockstep {
namespace {

using Messages = google::protobuf::RepeatedPtrField<v1::ChatMessage>;

bool is_instruction(const v1::ChatMessage& message) {
  return message.role() == "system" || message.role() == "developer";
}

// The role that an instruction gets for the template, and the fate of an instruction with that
// role.
struct Role {
  const char* name;
  Fate fate;
};

Role best_role(const v1::ChatMessage& message, Place place, const TemplateTraits& traits) {
  const Role system = {"system", traits.system[static_cast<size_t>(place)]};
  const Role developer = {"developer", traits.developer[static_cast<size_t>(place)]};
  if (message.role() == "system") return system;
  if (!traits.asked) return developer;
  // Some templates print any role. Their models know only the usual roles, so developer is used
  // only if the template names it, or if it does not show system.
  const bool is_known = traits.names.contains("developer") || system.fate != Fate::kShown;
  return is_known && developer.fate == Fate::kShown ? developer : system;
}

// The place and the fate of each message of a conversation.
class Conversation {
 public:
  Conversation(const Messages& messages, const TemplateTraits& traits)
      : messages_(messages),
        traits_(traits),
        first_instruction_(index_of(std::ranges::find_if(messages, is_instruction))),
        first_other_(index_of(std::ranges::find_if_not(messages, is_instruction))) {}

  // The number of instructions before all other messages.
  int instructions_at_start() const { return first_other_; }

  Place place_of(int index) const {
    if (index >= first_other_) return Place::kLater;
    return first_other_ == messages_.size() ? Place::kAlone : Place::kFirst;
  }

  Fate fate_of_role(int index) const {
    const v1::ChatMessage& message = messages_[index];
    if (is_instruction(message)) {
      const Place place = place_of(index);
      const bool replaces = place == Place::kLater && index > first_instruction_ &&
                            traits_.later_instruction_replaces;
      return replaces ? Fate::kLeftOut : best_role(message, place, traits_).fate;
    }
    if (message.role() == "tool") return traits_.results;
    const bool is_known = message.role() == "user" || message.role() == "assistant" ||
                          traits_.names.contains(message.role());
    return is_known ? Fate::kShown : traits_.other_roles;
  }

 private:
  int index_of(Messages::const_iterator at) const {
    return static_cast<int>(at - messages_.begin());
  }

  const Messages& messages_;
  const TemplateTraits& traits_;
  const int first_instruction_;
  const int first_other_;
};

// The parsed arguments, if they are an object.
std::optional<OrderedJson> object_of(const std::string& arguments) {
  if (arguments.empty()) return OrderedJson::object();
  auto json = parse_ordered_json(arguments, "arguments", {.reject_duplicate_keys = false});
  if (!json.ok() || !json->is_object()) return std::nullopt;
  return *std::move(json);
}

class Writer {
 public:
  Writer(const v1::ChatMessages& chat, const TemplateTraits& traits)
      : messages_(chat.messages()),
        continues_(chat.continue_final_message()),
        calls_as_text_(traits.asked && traits.calls != Fate::kShown),
        traits_(traits),
        conversation_(chat.messages(), traits) {}

  absl::StatusOr<OrderedJson> write() {
    const int first = conversation_.instructions_at_start();
    for (int i = 0; i < messages_.size(); ++i) RETURN_IF_ERROR(check(i));
    if (traits_.instructions_need_question) question_ = question_that_is_not_last();
    const bool moves = first > 0 && question_ >= 0;
    const bool joins = !moves && first > 1 && !traits_.several_instructions;
    if (joins) add_joined();
    for (int i = moves || joins ? first : 0; i < messages_.size();) i = add(i);
    return std::move(written_);
  }

 private:
  // The index of the user's last message if other messages follow it; else -1.
  int question_that_is_not_last() const {
    int index = messages_.size() - 1;
    while (index >= 0 && messages_[index].role() != "user") --index;
    return index + 1 < messages_.size() ? index : -1;
  }

  absl::Status check(int index) const {
    const v1::ChatMessage& message = messages_[index];
    const std::string name = fmt::format("chat.messages[{}]", index);
    const bool is_moved = calls_as_text_ && message.role() == "tool";
    if (message.has_content() && message.content_parts_size() > 0) {
      return field_error(name + ".content_parts",
                         "must not be sent with content; send one of the two");
    }
    if (!is_moved && has_text(message) && conversation_.fate_of_role(index) == Fate::kLeftOut) {
      return role_left_out(name, index);
    }
    const int calls = message.tool_calls_size();
    if (calls > 1 && !calls_as_text_ && traits_.several_calls == Pairing::kOneOnly) {
      return field_error(
          name + ".tool_calls",
          "must be at most one call, as the model's chat template shows no more, found {}", calls);
    }
    return absl::OkStatus();
  }

  absl::Status role_left_out(const std::string& name, int index) const {
    const v1::ChatMessage& message = messages_[index];
    const bool is_later = conversation_.place_of(index) == Place::kLater;
    const bool at_start = is_instruction(message) && is_later &&
                          best_role(message, Place::kFirst, traits_).fate == Fate::kShown;
    return field_error(
        name + ".role", "the model's chat template leaves out messages of the role {}{}",
        printable(message.role()),
        at_start                  ? ", except those before all others"
        : is_instruction(message) ? " at this place; put the text into a user's message"
                                  : "");
  }

  OrderedJson content_of(const std::string& text, ContentForm form, bool is_open = false) const {
    if (form != ContentForm::kParts) return text;
    OrderedJson parts = OrderedJson::array();
    if (!text.empty() || is_open) parts.push_back(text_part(text));
    return parts;
  }

  // The message's own content, with `before` in front. Several parts stay a list if the template
  // takes lists.
  OrderedJson content_of(const v1::ChatMessage& message, std::string before, ContentForm form,
                         bool is_open) const {
    if (message.content_parts_size() < 2 || form == ContentForm::kText) {
      append_text(text_of(message), "\n\n", &before);
      return content_of(before, form, is_open);
    }
    OrderedJson parts = OrderedJson::array();
    for (const std::string& part : message.content_parts()) {
      append_text(part, "\n\n", &before);
      parts.push_back(text_part(std::exchange(before, {})));
    }
    return parts;
  }

  static void append_text(const std::string& more, const char* between, std::string* text) {
    if (!text->empty() && !more.empty()) *text += between;
    *text += more;
  }

  // The texts of the instructions at the start.
  std::string joined_instructions() const {
    std::string text;
    for (int i = 0; i < conversation_.instructions_at_start(); ++i) {
      append_text(text_of(messages_[i]), "\n\n", &text);
    }
    return text;
  }

  // The instructions at the start as one message, with the role of the first one.
  void add_joined() {
    written_.push_back(
        {{"role", best_role(messages_[0], conversation_.place_of(0), traits_).name},
         {"content", content_of(joined_instructions(), traits_.instruction_content)}});
  }

  // A message without its calls.
  OrderedJson plain(int index) const {
    const v1::ChatMessage& message = messages_[index];
    std::string role = message.role();
    ContentForm form = traits_.turn_content;
    if (is_instruction(message)) {
      role = best_role(message, conversation_.place_of(index), traits_).name;
      form = traits_.instruction_content;
    } else if (role == "tool") {
      form = traits_.result_content;
    }
    const bool is_open = continues_ && index + 1 == messages_.size();
    OrderedJson content =
        content_of(message, index == question_ ? joined_instructions() : "", form, is_open);
    OrderedJson json = {{"role", role}, {"content", std::move(content)}};
    if (message.has_name()) json["name"] = message.name();
    if (message.has_tool_call_id()) json["tool_call_id"] = message.tool_call_id();
    if (message.has_reasoning_content()) json["reasoning_content"] = message.reasoning_content();
    return json;
  }

  // A call in the form of OpenAI's API, except that its arguments may be an object.
  OrderedJson call_of(int index, int number) const {
    const v1::ToolCall& call = messages_[index].tool_calls(number);
    const std::optional<OrderedJson> object = object_of(call.arguments());
    OrderedJson arguments = OrderedJson::object();
    if (object.has_value() && traits_.arguments_as_object) {
      arguments = *object;
    } else if (traits_.arguments_as_text) {
      arguments = call.arguments().empty() ? "{}" : call.arguments();
    } else {
      log_loss(
          fmt::format("chat.messages[{}].tool_calls[{}].arguments: not a JSON object, and the "
                      "model's chat template does not take text; passed as {{}}",
                      index, number));
    }
    return {{"id", call.id()},
            {"type", "function"},
            {"function", {{"name", call.name()}, {"arguments", std::move(arguments)}}}};
  }

  // Adds `json` with the calls [begin, end). Empty content takes the form that the template needs.
  void add_calls(OrderedJson json, int index, int begin, int end) {
    const OrderedJson& content = json["content"];
    if (content.empty() || (content.is_string() && content.get_ref<const std::string&>().empty())) {
      if (traits_.no_content == NoContent::kNull) json["content"] = nullptr;
      if (traits_.no_content == NoContent::kAbsent) json.erase("content");
    }
    for (int i = begin; i < end; ++i) json["tool_calls"].push_back(call_of(index, i));
    written_.push_back(std::move(json));
  }

  // Adds a message, and the results of its calls if the calls become several messages. Returns the
  // index of the next message.
  int add(int index) {
    const v1::ChatMessage& message = messages_[index];
    if (calls_as_text_ && (message.tool_calls_size() > 0 || message.role() == "tool")) {
      return message.role() == "tool" ? add_results_as_text(index) : add_calls_as_text(index);
    }
    OrderedJson json = plain(index);
    const int calls = message.tool_calls_size();
    if (calls == 0) {
      written_.push_back(std::move(json));
      return index + 1;
    }
    if (has_text(message) && traits_.content_and_calls != Pairing::kTogether) {
      if (traits_.content_and_calls == Pairing::kApart) {
        written_.push_back(json);
        json = {{"role", message.role()}};
      } else {
        log_loss(
            fmt::format("chat.messages[{}].content: left out, because the model's chat template "
                        "does not show it with calls",
                        index));
      }
      json["content"] = content_of({}, traits_.turn_content);
    }
    if (calls == 1 || traits_.several_calls == Pairing::kTogether) {
      add_calls(std::move(json), index, 0, calls);
      return index + 1;
    }
    return add_one_by_one(std::move(json), index);
  }

  // For a template that does not show calls: adds a line of JSON for each call, after the message's
  // text.
  int add_calls_as_text(int index) {
    const v1::ChatMessage& message = messages_[index];
    std::string text = text_of(message);
    for (const v1::ToolCall& call : message.tool_calls()) {
      const std::optional<OrderedJson> object = object_of(call.arguments());
      const OrderedJson json = {{"name", call.name()},
                                {"arguments", object.value_or(OrderedJson(call.arguments()))}};
      append_text(json.dump(), "\n", &text);
    }
    log_loss(
        fmt::format("chat.messages[{}].tool_calls: written as text, because the model's chat "
                    "template does not show calls",
                    index));
    OrderedJson json = plain(index);
    json["content"] = content_of(text, traits_.turn_content);
    written_.push_back(std::move(json));
    return index + 1;
  }

  // Adds the results of calls that were written as text: unchanged, or as one message of the user
  // if the template does not show the role tool. Returns the next index.
  int add_results_as_text(int index) {
    if (traits_.results == Fate::kShown) {
      written_.push_back(plain(index));
      return index + 1;
    }
    std::string text;
    for (; index < messages_.size() && messages_[index].role() == "tool"; ++index) {
      OrderedJson json = OrderedJson::object();
      if (messages_[index].has_name()) json["name"] = messages_[index].name();
      json["result"] = text_of(messages_[index]);
      append_text(json.dump(), "\n", &text);
    }
    written_.push_back({{"role", "user"}, {"content", content_of(text, traits_.turn_content)}});
    return index;
  }

  // Puts each call before its results. A result has the id of its call; a result without an id
  // belongs to the call of the same number. If several calls have the same id, each gets one result
  // and the last gets all others.
  int add_one_by_one(OrderedJson json, int index) {
    const v1::ChatMessage& message = messages_[index];
    // Results that are not yet added, by id.
    TextMap<std::string_view, std::deque<int>> results;
    int end = index + 1;
    for (; end < messages_.size() && messages_[end].role() == "tool"; ++end) {
      const std::string& id = messages_[end].tool_call_id();
      if (!id.empty()) results[id].push_back(end);
    }
    TextMap<std::string_view, int> last_calls;  // By id.
    const int calls = message.tool_calls_size();
    for (int i = 0; i < calls; ++i) last_calls[message.tool_calls(i).id()] = i;
    std::vector<bool> added(end, false);
    for (int number = 0; number < calls; ++number) {
      add_calls(std::move(json), index, number, number + 1);
      json = {{"role", message.role()}, {"content", content_of({}, traits_.turn_content)}};
      const std::string& id = message.tool_calls(number).id();
      std::deque<int>& own = results[id];
      const int place = index + 1 + number;
      if (place < end && messages_[place].tool_call_id().empty()) {
        own.insert(std::ranges::lower_bound(own, place), place);
      }
      for (bool goes_on = true; goes_on && !own.empty(); own.pop_front()) {
        added[own.front()] = true;
        written_.push_back(plain(own.front()));
        goes_on = last_calls[id] == number;
      }
    }
    for (int i = index + 1; i < end; ++i) {
      if (!added[i]) written_.push_back(plain(i));
    }
    return end;
  }

  const Messages& messages_;
  const bool continues_;      // The answer continues the last message.
  const bool calls_as_text_;  // The template does not show calls.
  int question_ = -1;         // The index of the message that receives the instructions.
  const TemplateTraits& traits_;
  const Conversation conversation_;
  OrderedJson written_ = OrderedJson::array();
};

}  // namespace

absl::StatusOr<OrderedJson> to_template_messages(const v1::ChatMessages& chat,
                                                 const TemplateTraits& traits) {
  return Writer(chat, traits).write();
}

absl::Status check_shown(const v1::ChatMessages& chat, const TemplateTraits& traits) {
  const auto left_out = [](const char* field) {
    return field_error(field,
                       "the model's chat template does not show them; leave them out, or use "
                       "--chat-template with a template that shows them");
  };
  // DeepSeek's templates show calls but no tools: clients describe the tools in a message's text.
  const bool shows_tools = traits.tools != Fate::kLeftOut || traits.calls == Fate::kShown;
  if (chat.tools_size() > 0 && !shows_tools) return left_out("chat.tools");
  if (chat.documents_size() > 0 && traits.documents == Fate::kLeftOut) {
    return left_out("chat.documents");
  }
  return absl::OkStatus();
}

std::string refused_field(const v1::ChatMessages& chat, const TemplateTraits& traits) {
  if (chat.tools_size() > 0 && traits.tools == Fate::kRefused) return "chat.tools";
  if (chat.documents_size() > 0 && traits.documents == Fate::kRefused) return "chat.documents";
  const Conversation conversation(chat.messages(), traits);
  for (int i = 0; i < chat.messages_size(); ++i) {
    const bool is_text = chat.messages(i).role() == "tool" && traits.calls != Fate::kShown;
    if (!is_text && conversation.fate_of_role(i) == Fate::kRefused) {
      return fmt::format("chat.messages[{}].role", i);
    }
  }
  return "chat";
}

}  // namespace lockstep
