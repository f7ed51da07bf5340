// SPDX-License-Identifier: Apache-2.0
// Converts OpenAI's messages and tools to ChatMessages.
#include "base/status.h"
#include "coordinator/openai/error.h"
#include "coordinator/openai/fields/values.h"

namespace lockstep::openai {
namespace {

// Reads the name and the arguments of a call.
absl::Status read_function(const std::string& field, const OrderedJson& function,
                           v1::ToolCall* call) {
  if (!function.is_object()) return wrong_value(field, "an object with \"name\"", function);
  const OrderedJson* name = member(function, "name");
  ASSIGN_OR_RETURN(*call->mutable_name(),
                   as_string(field + ".name", name == nullptr ? OrderedJson() : *name));
  call->set_arguments(arguments_text(member(function, "arguments")));
  return absl::OkStatus();
}

absl::Status read_tool_call(const std::string& field, const OrderedJson& value,
                            v1::ToolCall* call) {
  const OrderedJson* function = value.is_object() ? member(value, "function") : nullptr;
  if (function == nullptr || !function->is_object()) {
    return wrong_value(field, "an object with \"function\"", value);
  }
  if (const OrderedJson* id = member(value, "id")) {
    ASSIGN_OR_RETURN(*call->mutable_id(), as_string(field + ".id", *id));
  }
  return read_function(field + ".function", *function, call);
}

// Reads the calls of a message: "tool_calls", or the former "function_call", which gets an id made
// from the message's index. The id has nine letters and digits, because Mistral's templates accept
// no other.
absl::Status read_calls(const std::string& field, const OrderedJson& value, size_t index,
                        v1::ChatMessage* message) {
  const OrderedJson* calls = member(value, "tool_calls");
  if (calls != nullptr && !calls->is_array()) {
    return wrong_value(field + ".tool_calls", "a list", *calls);
  }
  for (size_t i = 0; calls != nullptr && i < calls->size(); ++i) {
    RETURN_IF_ERROR(read_tool_call(fmt::format("{}.tool_calls[{}]", field, i), (*calls)[i],
                                   message->add_tool_calls()));
  }
  const OrderedJson* function_call = member(value, "function_call");
  if (function_call == nullptr || message->tool_calls_size() > 0) return absl::OkStatus();
  v1::ToolCall* call = message->add_tool_calls();
  call->set_id(fmt::format("call{:05}", index % 100000));
  return read_function(field + ".function_call", *function_call, call);
}

// A message with the former role "function" becomes a tool's result. If the message before it has
// one call, the result belongs to that call.
void use_tool_role(const google::protobuf::RepeatedPtrField<v1::ChatMessage>& before,
                   v1::ChatMessage* message) {
  if (message->role() != "function") return;
  message->set_role("tool");
  if (message->has_tool_call_id() || before.empty()) return;
  const v1::ChatMessage& last = *before.rbegin();
  if (last.tool_calls_size() == 1) message->set_tool_call_id(last.tool_calls(0).id());
}

absl::Status read_message(const std::string& field, const OrderedJson& value, size_t index,
                          v1::ChatMessage* message) {
  if (!value.is_object()) return wrong_value(field, "an object", value);
  const OrderedJson* role = member(value, "role");
  ASSIGN_OR_RETURN(*message->mutable_role(),
                   as_string(field + ".role", role == nullptr ? OrderedJson() : *role));
  RETURN_IF_ERROR(read_calls(field, value, index, message));
  const OrderedJson* content = member(value, "content");
  if (content != nullptr && (content->is_array() || content->is_string())) {
    ASSIGN_OR_RETURN(ContentText read, read_content(field + ".content", *content));
    set_texts(std::move(read.texts), message);
    if (!read.thoughts.empty()) message->set_reasoning_content(std::move(read.thoughts));
  } else if (content != nullptr ||
             (member(value, "tool_calls") == nullptr && message->role() != "assistant")) {
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
  return absl::OkStatus();
}

}  // namespace

absl::Status read_messages(const OrderedJson& value, v1::ChatMessages* chat) {
  if (!value.is_array()) return wrong_value("messages", "a list of messages", value);
  if (value.empty()) return refusal("messages", "must have at least one message, found none");
  for (size_t i = 0; i < value.size(); ++i) {
    v1::ChatMessage message;
    RETURN_IF_ERROR(read_message(fmt::format("messages[{}]", i), value[i], i, &message));
    use_tool_role(chat->messages(), &message);
    *chat->add_messages() = std::move(message);
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
