// SPDX-License-Identifier: Apache-2.0
// Converts the input of /v1/responses to ChatMessages: messages, calls, and results of calls.
#include "base/status.h"
#include "coordinator/openai/fields/values.h"

namespace lockstep::openai {
namespace {

absl::StatusOr<std::string> text_at(const std::string& field, const OrderedJson& object,
                                    const char* name) {
  const OrderedJson* found = member(object, name);
  return as_string(field + "." + name, found == nullptr ? OrderedJson() : *found);
}

// Sets the message's text and thoughts. `thought` is that of an earlier item.
absl::Status read_message_content(const std::string& field, const OrderedJson* content,
                                  std::string thought, v1::ChatMessage* message) {
  ASSIGN_OR_RETURN(ContentText read,
                   read_content(field, content == nullptr ? OrderedJson() : *content));
  set_texts(std::move(read.texts), message);
  if (thought.empty()) thought = std::move(read.thoughts);
  if (!thought.empty()) message->set_reasoning_content(std::move(thought));
  return absl::OkStatus();
}

// A call without a thought joins the message before it, if that is the assistant's.
absl::Status read_call(const std::string& field, const OrderedJson& item, std::string thought,
                       v1::ChatMessages* chat) {
  auto* messages = chat->mutable_messages();
  const bool goes_on =
      thought.empty() && !messages->empty() && messages->rbegin()->role() == "assistant";
  v1::ChatMessage* message = goes_on ? &*messages->rbegin() : messages->Add();
  message->set_role("assistant");
  if (!thought.empty()) message->set_reasoning_content(std::move(thought));
  v1::ToolCall* call = message->add_tool_calls();
  ASSIGN_OR_RETURN(*call->mutable_id(), text_at(field, item, "call_id"));
  ASSIGN_OR_RETURN(*call->mutable_name(), text_at(field, item, "name"));
  call->set_arguments(arguments_text(member(item, "arguments")));
  return absl::OkStatus();
}

// The content of a reasoning item, else its summary.
absl::StatusOr<std::string> read_thought(const std::string& field, const OrderedJson& item) {
  for (const char* name : {"content", "summary"}) {
    const OrderedJson* parts = member(item, name);
    if (parts == nullptr || parts->empty()) continue;
    ASSIGN_OR_RETURN(ContentText read, read_content(field + "." + name, *parts));
    return std::move(read.thoughts);
  }
  return std::string();
}

// `thought` is that of the previous item. It is cleared, unless this item is a thought itself.
absl::Status read_item(const std::string& field, const OrderedJson& item, std::string* thought,
                       v1::ChatMessages* chat) {
  if (!item.is_object()) return wrong_value(field, "an object", item);
  const std::string before = std::exchange(*thought, {});
  const OrderedJson* type = member(item, "type");
  if (type == nullptr || *type == "message") {
    v1::ChatMessage* message = chat->add_messages();
    ASSIGN_OR_RETURN(*message->mutable_role(), text_at(field, item, "role"));
    return read_message_content(field + ".content", member(item, "content"),
                                message->role() == "assistant" ? before : "", message);
  }
  if (*type == "function_call") return read_call(field, item, before, chat);
  if (*type == "function_call_output") {
    v1::ChatMessage* message = chat->add_messages();
    message->set_role("tool");
    ASSIGN_OR_RETURN(*message->mutable_tool_call_id(), text_at(field, item, "call_id"));
    return read_message_content(field + ".output", member(item, "output"), "", message);
  }
  if (*type == "reasoning") {
    ASSIGN_OR_RETURN(*thought, read_thought(field, item));
    return absl::OkStatus();
  }
  return wrong_value(field + ".type", "message, function_call, function_call_output or reasoning",
                     *type);
}

}  // namespace

absl::Status read_input(const OrderedJson& value, v1::ChatMessages* chat) {
  if (value.is_string()) {
    v1::ChatMessage* message = chat->add_messages();
    message->set_role("user");
    message->set_content(value.get<std::string>());
    return absl::OkStatus();
  }
  if (!value.is_array()) return wrong_value("input", "a string or a list of items", value);
  std::string thought;
  for (size_t i = 0; i < value.size(); ++i) {
    RETURN_IF_ERROR(read_item(fmt::format("input[{}]", i), value[i], &thought, chat));
  }
  return absl::OkStatus();
}

absl::Status read_flat_tools(const OrderedJson& value, v1::ChatMessages* chat) {
  if (!value.is_array()) return wrong_value("tools", "a list of functions", value);
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string field = fmt::format("tools[{}]", i);
    RETURN_IF_ERROR(check_tool(field, value[i]));
    const OrderedJson* name = member(value[i], "name");
    if (name == nullptr || !name->is_string()) {
      return wrong_value(field, "{\"type\": \"function\", \"name\": ...}", value[i]);
    }
    OrderedJson function = value[i];
    function.erase("type");
    chat->add_tools(OrderedJson{{"type", "function"}, {"function", std::move(function)}}.dump());
  }
  return absl::OkStatus();
}

}  // namespace lockstep::openai
