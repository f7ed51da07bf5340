// SPDX-License-Identifier: Apache-2.0
// OpenAI's messages and tools -> ChatMessages.
#include "base/status.h"
#include "coordinator/openai/error.h"
#include "coordinator/openai/values.h"

namespace lockstep::openai {
namespace {

absl::Status read_tool_call(const std::string& field, const OrderedJson& value,
                            v1::ToolCall* call) {
  const OrderedJson* function = value.is_object() ? member(value, "function") : nullptr;
  if (function == nullptr || !function->is_object()) {
    return wrong_value(field, "an object with \"function\"", value);
  }
  if (const OrderedJson* id = member(value, "id")) {
    ASSIGN_OR_RETURN(*call->mutable_id(), as_string(field + ".id", *id));
  }
  const OrderedJson* name = member(*function, "name");
  ASSIGN_OR_RETURN(*call->mutable_name(),
                   as_string(field + ".function.name", name == nullptr ? OrderedJson() : *name));
  call->set_arguments(arguments_text(member(*function, "arguments")));
  return absl::OkStatus();
}

absl::Status read_message(const std::string& field, const OrderedJson& value,
                          v1::ChatMessage* message) {
  if (!value.is_object()) return wrong_value(field, "an object", value);
  const OrderedJson* role = member(value, "role");
  ASSIGN_OR_RETURN(*message->mutable_role(),
                   as_string(field + ".role", role == nullptr ? OrderedJson() : *role));
  const OrderedJson* calls = member(value, "tool_calls");
  const OrderedJson* content = member(value, "content");
  if (content != nullptr && (content->is_array() || content->is_string())) {
    ASSIGN_OR_RETURN(ContentText read, read_content(field + ".content", *content));
    message->set_content(std::move(read.text));
    if (!read.thoughts.empty()) message->set_reasoning_content(std::move(read.thoughts));
  } else if (content != nullptr || (calls == nullptr && message->role() != "assistant")) {
    return wrong_value(field + ".content", "a string or a list of text parts",
                       content == nullptr ? OrderedJson() : *content);
  }
  if (const OrderedJson* name = member(value, "name")) {
    ASSIGN_OR_RETURN(*message->mutable_name(), as_string(field + ".name", *name));
  }
  if (const OrderedJson* id = member(value, "tool_call_id")) {
    ASSIGN_OR_RETURN(*message->mutable_tool_call_id(), as_string(field + ".tool_call_id", *id));
  }
  for (const char* key : {"reasoning_content", "reasoning"}) {
    if (const OrderedJson* reasoning = member(value, key)) {
      ASSIGN_OR_RETURN(*message->mutable_reasoning_content(),
                       as_string(field + "." + key, *reasoning));
      break;
    }
  }
  if (calls == nullptr) return absl::OkStatus();
  if (!calls->is_array()) return wrong_value(field + ".tool_calls", "a list", *calls);
  for (size_t i = 0; i < calls->size(); ++i) {
    RETURN_IF_ERROR(read_tool_call(fmt::format("{}.tool_calls[{}]", field, i), (*calls)[i],
                                   message->add_tool_calls()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status read_messages(const OrderedJson& value, v1::ChatMessages* chat) {
  if (!value.is_array()) return wrong_value("messages", "a list of messages", value);
  if (value.empty()) return refusal("messages", "want at least one message, found none");
  for (size_t i = 0; i < value.size(); ++i) {
    RETURN_IF_ERROR(read_message(fmt::format("messages[{}]", i), value[i], chat->add_messages()));
  }
  return absl::OkStatus();
}

absl::Status check_tool(const std::string& field, const OrderedJson& tool) {
  if (!tool.is_object()) return wrong_value(field, "an object", tool);
  const OrderedJson* type = member(tool, "type");
  if (type != nullptr && *type == "function") return absl::OkStatus();
  return wrong_value(field + ".type", "\"function\" (this server has no tools of its own)",
                     type == nullptr ? OrderedJson() : *type);
}

absl::Status read_tools(const OrderedJson& value, v1::ChatMessages* chat) {
  if (!value.is_array()) return wrong_value("tools", "a list of functions", value);
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string field = fmt::format("tools[{}]", i);
    RETURN_IF_ERROR(check_tool(field, value[i]));
    const OrderedJson* function = member(value[i], "function");
    if (function == nullptr || !function->is_object() || member(*function, "name") == nullptr ||
        !(*function)["name"].is_string()) {
      return wrong_value(field, "{\"type\": \"function\", \"function\": {\"name\": ...}}",
                         value[i]);
    }
    chat->add_tools(value[i].dump());
  }
  return absl::OkStatus();
}

}  // namespace lockstep::openai
