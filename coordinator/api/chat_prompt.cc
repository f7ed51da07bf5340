// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/chat_prompt.h"

#include "base/json.h"
#include "base/status.h"
#include "coordinator/api/template_variables.h"

namespace lockstep {
namespace {

absl::StatusOr<OrderedJson> parse_object(const std::string& text, const std::string& what) {
  ASSIGN_OR_RETURN(OrderedJson json, parse_ordered_json(text, what));
  if (json.is_object()) return json;
  return invalid_argument("{}: want a JSON object, found {}", what, json.type_name());
}

// Null where there is none.
absl::StatusOr<OrderedJson> parse_objects(
    const google::protobuf::RepeatedPtrField<std::string>& texts, const char* what) {
  OrderedJson objects;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(OrderedJson object,
                     parse_object(text, fmt::format("chat.{}[{}]", what, objects.size())));
    objects.push_back(std::move(object));
  }
  return objects;
}

// As OpenAI's API has it, but arguments are an object, which is what templates expect.
absl::StatusOr<OrderedJson> to_json(const v1::ToolCall& call, const std::string& what) {
  OrderedJson arguments = OrderedJson::object();
  if (!call.arguments().empty()) {
    ASSIGN_OR_RETURN(arguments, parse_object(call.arguments(), what + ".arguments"));
  }
  return OrderedJson{{"id", call.id()},
                     {"type", "function"},
                     {"function", {{"name", call.name()}, {"arguments", std::move(arguments)}}}};
}

absl::StatusOr<OrderedJson> to_json(const v1::ChatMessage& message, const std::string& what) {
  // A message without content, such as one of tool calls alone, has an empty one: many templates
  // would print "None".
  OrderedJson json = {{"role", message.role()}, {"content", message.content()}};
  if (message.has_name()) json["name"] = message.name();
  if (message.has_tool_call_id()) json["tool_call_id"] = message.tool_call_id();
  if (message.has_reasoning_content()) json["reasoning_content"] = message.reasoning_content();
  for (int i = 0; i < message.tool_calls_size(); ++i) {
    ASSIGN_OR_RETURN(OrderedJson call,
                     to_json(message.tool_calls(i), fmt::format("{}.tool_calls[{}]", what, i)));
    json["tool_calls"].push_back(std::move(call));
  }
  return json;
}

}  // namespace

absl::StatusOr<ChatRequest> to_chat_request(const v1::ChatMessages& chat, OrderedJson variables) {
  ChatRequest request;
  request.variables = std::move(variables);
  request.messages = OrderedJson::array();
  for (int i = 0; i < chat.messages_size(); ++i) {
    ASSIGN_OR_RETURN(OrderedJson message,
                     to_json(chat.messages(i), fmt::format("chat.messages[{}]", i)));
    request.messages.push_back(std::move(message));
  }
  ASSIGN_OR_RETURN(request.tools, parse_objects(chat.tools(), "tools"));
  ASSIGN_OR_RETURN(request.documents, parse_objects(chat.documents(), "documents"));
  request.continue_final_message = chat.continue_final_message();
  request.add_generation_prompt = chat.has_add_generation_prompt() ? chat.add_generation_prompt()
                                                                   : !chat.continue_final_message();
  return request;
}

absl::StatusOr<MarkedText> render_chat(const v1::ChatMessages& chat, const Model& model) {
  const absl::StatusOr<const ChatTemplate*> found = model.chat_template();
  if (!found.ok()) return invalid_argument("chat: {}", message_of(found.status()));
  const ChatTemplate* chat_template = *found;
  ASSIGN_OR_RETURN(OrderedJson variables,
                   template_variables(chat.template_variables(), model.options().template_variables,
                                      *chat_template));
  ASSIGN_OR_RETURN(const ChatRequest request, to_chat_request(chat, std::move(variables)));
  const std::time_t seconds = std::time(nullptr);
  std::tm now{};
  localtime_r(&seconds, &now);
  absl::StatusOr<MarkedText> text = chat_template->render(request, now);
  if (text.ok()) return text;
  return invalid_argument("chat: the model's template: {}", message_of(text.status()));
}

}  // namespace lockstep
