// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/chat/template_variables.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/field_error.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr char kField[] = "chat.template_variables";

void add_thinking_of_effort(OrderedJson* variables) {
  const auto effort = variables->find("reasoning_effort");
  if (effort == variables->end() || effort->is_null()) return;
  const bool thinks = *effort != "none";
  variables->emplace("enable_thinking", thinks);
}

absl::Status add_given(const std::string& json, const std::vector<std::string>& named,
                       const ChatTemplate& chat_template, OrderedJson* variables) {
  ASSIGN_OR_RETURN(const OrderedJson given, parse_object_field(json, kField));
  std::vector<std::string> passed(std::begin(ChatTemplate::kThinkingVariables),
                                  std::end(ChatTemplate::kThinkingVariables));
  passed.insert(passed.end(), named.begin(), named.end());
  for (const auto& [name, value] : given.items()) {
    if (std::ranges::find(passed, name) != passed.end()) {
      (*variables)[name] = value;
    } else if (chat_template.reads(name)) {
      return field_error(
          kField,
          "{} is not among the variables that this server passes ({}); start it with "
          "--template-vars to add it",
          printable(name), fmt::join(passed, ", "));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OrderedJson> parse_object_field(const std::string& text, const std::string& field) {
  absl::StatusOr<OrderedJson> json = parse_ordered_json(text, field);
  if (!json.ok()) return about_field(json.status(), field);
  if (json->is_object()) return json;
  return field_error(field, "must be a JSON object, found {}", json->type_name());
}

absl::StatusOr<OrderedJson> template_variables(const std::string& json,
                                               const std::vector<std::string>& named,
                                               const ChatTemplate& chat_template,
                                               const OrderedJson& defaults) {
  OrderedJson variables = OrderedJson::object();
  if (!json.empty()) RETURN_IF_ERROR(add_given(json, named, chat_template, &variables));
  add_thinking_of_effort(&variables);
  for (const auto& [name, value] : defaults.items()) {
    if (!variables.contains(name)) variables[name] = value;
  }
  add_thinking_of_effort(&variables);
  return variables;
}

}  // namespace lockstep
