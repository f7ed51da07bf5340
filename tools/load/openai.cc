// SPDX-License-Identifier: Apache-2.0
#include "tools/load/openai.h"

namespace lockstep {
namespace {

// Answers are not trusted: any key may be missing, and any value may have any type.
const Json* member(const Json& value, const char* key) {
  if (!value.is_object()) return nullptr;
  const auto found = value.find(key);
  return found == value.end() ? nullptr : &*found;
}

bool has_text(const Json& object, const char* key) {
  const Json* text = member(object, key);
  return text != nullptr && text->is_string() && !text->get_ref<const std::string&>().empty();
}

std::optional<int64_t> get_count(const Json& usage, const char* key) {
  const Json* count = member(usage, key);
  if (count == nullptr || !count->is_number_unsigned()) return std::nullopt;
  const auto value = count->get<uint64_t>();
  if (value > static_cast<uint64_t>(Lengths::kMax)) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::string message_in(const Json& error) {
  const Json* message = member(error, "message");
  if (message != nullptr && message->is_string()) return message->get<std::string>();
  return error.is_string() ? error.get<std::string>() : error.dump();
}

void read_choice(const Json& choice, AnswerEvent* event) {
  if (has_text(choice, "text")) event->has_text = true;
  if (has_text(choice, "finish_reason")) event->finished = true;
  const Json* delta = member(choice, "delta");
  if (delta == nullptr) return;
  for (const char* key : {"content", "reasoning_content", "reasoning", "refusal"}) {
    if (has_text(*delta, key)) event->has_text = true;
  }
  const Json* calls = member(*delta, "tool_calls");
  if (calls != nullptr && calls->is_array() && !calls->empty()) event->has_text = true;
}

}  // namespace

const char* path_of(Endpoint endpoint) {
  return endpoint == Endpoint::kChat ? "/chat/completions" : "/completions";
}

std::string make_body(Endpoint endpoint, const std::string& model, const LoadRequest& request,
                      const Json& extra) {
  Json body = {{"model", model},
               {"max_tokens", request.max_tokens},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  if (endpoint == Endpoint::kChat) {
    body["messages"] = Json::array({{{"role", "user"}, {"content", request.prompt}}});
  } else {
    body["prompt"] = request.prompt;
  }
  body.update(extra);
  // JSON cannot carry a prompt's bytes that are not UTF-8, so they are replaced.
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<AnswerEvent> parse_answer_event(std::string_view data) {
  AnswerEvent event;
  if (data == "[DONE]") {
    event.done = true;
    return event;
  }
  ASSIGN_OR_RETURN(const Json json, parse_json(data, "an event", {.reject_duplicate_keys = false}));
  if (!json.is_object())
    return invalid_argument("an event must be an object, found {}", describe(json));
  if (const Json* error = member(json, "error"); error != nullptr && !error->is_null()) {
    event.error = message_in(*error);
  }
  if (const Json* choices = member(json, "choices"); choices != nullptr && choices->is_array()) {
    for (const Json& choice : *choices) read_choice(choice, &event);
  }
  if (const Json* usage = member(json, "usage"); usage != nullptr) {
    event.prompt_tokens = get_count(*usage, "prompt_tokens");
    event.output_tokens = get_count(*usage, "completion_tokens");
  }
  return event;
}

std::string error_message(std::string_view body) {
  const absl::StatusOr<Json> json =
      parse_json(body, "the answer", {.reject_duplicate_keys = false});
  if (!json.ok() || !json->is_object()) return printable(body);
  const Json* error = member(*json, "error");
  return printable(message_in(error != nullptr ? *error : *json));
}

absl::StatusOr<std::string> first_model(std::string_view body) {
  ASSIGN_OR_RETURN(const Json json,
                   parse_json(body, "the list of models", {.reject_duplicate_keys = false}));
  const Json* list = member(json, "data");
  if (list != nullptr && list->is_array() && !list->empty()) {
    const Json* id = member((*list)[0], "id");
    if (id != nullptr && id->is_string()) return id->get<std::string>();
  }
  return invalid_argument("the list of models must have data[0].id, found none");
}

}  // namespace lockstep
