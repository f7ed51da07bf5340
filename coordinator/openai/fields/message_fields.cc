// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/status.h"
#include "coordinator/openai/error.h"
#include "coordinator/openai/fields/field_readers.h"
#include "coordinator/openai/fields/values.h"

namespace lockstep::openai::read {
namespace {

constexpr size_t kMaxPrompts = 1024;

v1::ChatMessages* chat_of(ApiRequest* request) { return request->shared.mutable_chat(); }

}  // namespace

absl::Status prompt(const Field& field, const OrderedJson& value, ApiRequest* request) {
  const bool is_list = value.is_array() && !value.empty() && !value[0].is_number();
  const OrderedJson list = is_list ? value : OrderedJson::array({value});
  if (list.size() > kMaxPrompts) {
    return refusal(field.name,
                   fmt::format("must have at most {} prompts, found {}; send fewer at once",
                               kMaxPrompts, list.size()));
  }
  request->prompts.resize(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == "" || list[i] == OrderedJson::array()) {
      return refusal(field.name, "must be text or token ids, found an empty prompt");
    }
    if (list[i].is_string()) {
      request->prompts[i].set_prompt(list[i].get<std::string>());
    } else if (list[i].is_array()) {
      ASSIGN_OR_RETURN(const std::vector<int32_t> ids, as_ids(field.name, list[i]));
      request->prompts[i].mutable_prompt_ids()->mutable_ids()->Add(ids.begin(), ids.end());
    } else {
      return wrong_value(field.name, "a string, a list of token ids, or a list of these", list[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status tokens(const Field& field, const OrderedJson& value, ApiRequest* request) {
  ASSIGN_OR_RETURN(request->tokens, as_ids(field.name, value));
  return absl::OkStatus();
}

absl::Status messages(const Field&, const OrderedJson& value, ApiRequest* request) {
  return read_messages(value, chat_of(request));
}

absl::Status input(const Field&, const OrderedJson& value, ApiRequest* request) {
  return read_input(value, chat_of(request));
}

// This field is read after the input, and becomes the first message.
absl::Status instructions(const Field& field, const OrderedJson& value, ApiRequest* request) {
  ASSIGN_OR_RETURN(std::string text, as_string(field.name, value));
  auto* messages = chat_of(request)->mutable_messages();
  v1::ChatMessage* system = messages->Add();
  system->set_role("system");
  system->set_content(std::move(text));
  std::rotate(messages->pointer_begin(), messages->pointer_end() - 1, messages->pointer_end());
  return absl::OkStatus();
}

absl::Status tools(const Field& field, const OrderedJson& value, ApiRequest* request) {
  const bool is_flat = request->endpoint == kResponses;
  RETURN_IF_ERROR(is_flat ? read_flat_tools(value, chat_of(request))
                          : read_tools(value, chat_of(request)));
  // OpenAI accepts an empty list only in responses.
  if (value.empty() && !is_flat)
    return refusal(field.name, "must have at least one tool, found none");
  request->parses_tools = !value.empty();
  return absl::OkStatus();
}

absl::Status tool_choice(const Field& field, const OrderedJson& value, ApiRequest* request) {
  if (value == "auto") return absl::OkStatus();
  if (value != "none") {
    return wrong_value(field.name, "\"auto\" or \"none\" (this server cannot force a call yet)",
                       value);
  }
  chat_of(request)->clear_tools();  // A model that sees no tools calls none.
  request->parses_tools = false;
  return absl::OkStatus();
}

absl::Status documents(const Field& field, const OrderedJson& value, ApiRequest* request) {
  if (!value.is_array()) return wrong_value(field.name, "a list of objects", value);
  for (const OrderedJson& document : value) {
    if (!document.is_object()) return wrong_value(field.name, "a list of objects", document);
    chat_of(request)->add_documents(document.dump());
  }
  return absl::OkStatus();
}

absl::Status add_generation_prompt(const Field& field, const OrderedJson& value,
                                   ApiRequest* request) {
  ASSIGN_OR_RETURN(const bool flag, as_bool(field.name, value));
  chat_of(request)->set_add_generation_prompt(flag);
  return absl::OkStatus();
}

absl::Status continue_final_message(const Field& field, const OrderedJson& value,
                                    ApiRequest* request) {
  ASSIGN_OR_RETURN(const bool flag, as_bool(field.name, value));
  chat_of(request)->set_continue_final_message(flag);
  return absl::OkStatus();
}

absl::Status chat_template_kwargs(const Field& field, const OrderedJson& value,
                                  ApiRequest* request) {
  if (!value.is_object()) return wrong_value(field.name, "an object", value);
  chat_of(request)->set_template_variables(value.dump());
  return absl::OkStatus();
}

// This field is read after chat_template_kwargs, and replaces the reasoning_effort in it. For
// /v1/responses it is a member of the object `reasoning`.
absl::Status effort(const Field& field, const OrderedJson& value, ApiRequest* request) {
  constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium",
                                           "high", "xhigh",   "max"};
  const bool is_member = request->endpoint == kResponses;
  if (is_member && !value.is_object()) return wrong_value(field.name, "an object", value);
  const OrderedJson* given = is_member ? member(value, "effort") : &value;
  if (given == nullptr) return absl::OkStatus();
  const std::string name = is_member ? "reasoning.effort" : field.name;
  ASSIGN_OR_RETURN(const std::string wanted, as_string(name, *given));
  if (std::ranges::find(kEfforts, wanted) == std::end(kEfforts)) {
    return wrong_value(name, "none, minimal, low, medium, high, xhigh or max", *given);
  }
  std::string& json = *chat_of(request)->mutable_template_variables();
  OrderedJson variables = OrderedJson::parse(json.empty() ? "{}" : json);
  variables["reasoning_effort"] = wanted;
  json = variables.dump();
  return absl::OkStatus();
}

}  // namespace lockstep::openai::read
