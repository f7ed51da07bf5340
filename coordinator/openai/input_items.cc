// SPDX-License-Identifier: Apache-2.0
// The input of /v1/responses -> ChatMessages: messages, calls, and what calls gave.
#include "base/status.h"
#include "coordinator/openai/values.h"

namespace lockstep::openai {
namespace {

absl::StatusOr<std::string> text_at(const std::string& field, const OrderedJson& object,
                                    const char* name) {
  const OrderedJson* found = member(object, name);
  return as_string(field + "." + name, found == nullptr ? OrderedJson() : *found);
}

absl::StatusOr<std::string> text_of_content(const std::string& field, const OrderedJson& content) {
  if (!content.is_array()) return as_string(field, content);
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    const std::string name = fmt::format("{}[{}]", field, i);
    if (!content[i].is_object()) return wrong_value(name, "an object", content[i]);
    ASSIGN_OR_RETURN(const std::string type, text_at(name, content[i], "type"));
    if (type != "input_text" && type != "output_text" && type != "text") {
      return wrong_value(name + ".type", "input_text or output_text (this server reads text alone)",
                         OrderedJson(type));
    }
    ASSIGN_OR_RETURN(const std::string piece, text_at(name, content[i], "text"));
    text += (i > 0 ? "\n" : "") + piece;
  }
  return text;
}

// Calls that follow one another are one message.
absl::Status read_call(const std::string& field, const OrderedJson& item, v1::ChatMessages* chat) {
  auto* messages = chat->mutable_messages();
  const bool goes_on = !messages->empty() && messages->rbegin()->role() == "assistant";
  v1::ChatMessage* message = goes_on ? &*messages->rbegin() : messages->Add();
  message->set_role("assistant");
  v1::ToolCall* call = message->add_tool_calls();
  ASSIGN_OR_RETURN(*call->mutable_id(), text_at(field, item, "call_id"));
  ASSIGN_OR_RETURN(*call->mutable_name(), text_at(field, item, "name"));
  ASSIGN_OR_RETURN(*call->mutable_arguments(), text_at(field, item, "arguments"));
  return absl::OkStatus();
}

absl::Status read_item(const std::string& field, const OrderedJson& item, v1::ChatMessages* chat) {
  if (!item.is_object()) return wrong_value(field, "an object", item);
  const OrderedJson* type = member(item, "type");
  if (type == nullptr || *type == "message") {
    v1::ChatMessage* message = chat->add_messages();
    ASSIGN_OR_RETURN(*message->mutable_role(), text_at(field, item, "role"));
    const OrderedJson* content = member(item, "content");
    ASSIGN_OR_RETURN(
        *message->mutable_content(),
        text_of_content(field + ".content", content == nullptr ? OrderedJson() : *content));
    return absl::OkStatus();
  }
  if (*type == "function_call") return read_call(field, item, chat);
  if (*type == "function_call_output") {
    v1::ChatMessage* message = chat->add_messages();
    message->set_role("tool");
    ASSIGN_OR_RETURN(*message->mutable_tool_call_id(), text_at(field, item, "call_id"));
    const OrderedJson* output = member(item, "output");
    ASSIGN_OR_RETURN(
        *message->mutable_content(),
        text_of_content(field + ".output", output == nullptr ? OrderedJson() : *output));
    return absl::OkStatus();
  }
  if (*type == "reasoning") return absl::OkStatus();  // Thoughts of earlier answers are not kept.
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
  for (size_t i = 0; i < value.size(); ++i) {
    RETURN_IF_ERROR(read_item(fmt::format("input[{}]", i), value[i], chat));
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
