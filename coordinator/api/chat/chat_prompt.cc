// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/chat/chat_prompt.h"

#include "base/field_error.h"
#include "base/json.h"
#include "base/status.h"
#include "coordinator/api/chat/template_messages.h"
#include "coordinator/api/chat/template_variables.h"
#include "coordinator/api/prompt_losses.h"

namespace lockstep {
namespace {

// Null if `texts` is empty.
absl::StatusOr<OrderedJson> parse_objects(
    const google::protobuf::RepeatedPtrField<std::string>& texts, const char* what) {
  OrderedJson objects;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(OrderedJson object,
                     parse_object_field(text, fmt::format("chat.{}[{}]", what, objects.size())));
    objects.push_back(std::move(object));
  }
  return objects;
}

}  // namespace

absl::StatusOr<TemplateInput> to_template_input(const v1::ChatMessages& chat, OrderedJson variables,
                                                const TemplateTraits& traits) {
  RETURN_IF_ERROR(check_shown(chat, traits));
  TemplateInput request;
  request.variables = std::move(variables);
  ASSIGN_OR_RETURN(request.messages, to_template_messages(chat, traits));
  ASSIGN_OR_RETURN(request.tools, parse_objects(chat.tools(), "tools"));
  request.tools_variable = traits.tools_variable;
  ASSIGN_OR_RETURN(request.documents, parse_objects(chat.documents(), "documents"));
  request.continue_final_message = chat.continue_final_message();
  request.add_generation_prompt = chat.has_add_generation_prompt() ? chat.add_generation_prompt()
                                                                   : !chat.continue_final_message();
  return request;
}

absl::StatusOr<MarkedText> render_chat(const v1::ChatMessages& chat, const Model& model) {
  const absl::StatusOr<const ChatTemplate*> found = model.chat_template();
  if (!found.ok()) return field_error("chat", "{}", message_of(found.status()));
  const ChatTemplate* chat_template = *found;
  const TemplateTraits& traits = chat_template->traits(/*has_tools=*/chat.tools_size() > 0,
                                                       /*has_documents=*/chat.documents_size() > 0);
  ASSIGN_OR_RETURN(const OrderedJson variables,
                   template_variables(chat.template_variables(), model.options().template_variables,
                                      *chat_template, model.template_defaults()));
  ASSIGN_OR_RETURN(const TemplateInput request, to_template_input(chat, variables, traits));
  const std::time_t seconds = std::time(nullptr);
  std::tm now{};
  localtime_r(&seconds, &now);
  absl::StatusOr<MarkedText> text = chat_template->render(request, now);
  if (!text.ok()) {
    return field_error(refused_field(chat, traits), "the model's template: {}",
                       message_of(text.status()));
  }
  const auto render = [&](const v1::ChatMessages& other) -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const TemplateInput made, to_template_input(other, variables, traits));
    ASSIGN_OR_RETURN(MarkedText rendered, chat_template->render(made, now));
    return std::move(rendered.bytes);
  };
  RETURN_IF_ERROR(check_losses(chat, request, traits, text->bytes, render));
  return text;
}

}  // namespace lockstep
