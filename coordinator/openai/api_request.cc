// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/api_request.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/field_error.h"
#include "base/status.h"
#include "coordinator/admission/admission.h"
#include "coordinator/openai/answers/response_writer.h"
#include "coordinator/openai/error.h"
#include "coordinator/openai/fields/field_table.h"

namespace lockstep::openai {
namespace {

constexpr int32_t kCompletionTokens = 16;  // OpenAI's default.

absl::Status read_fields(const OrderedJson& body, ApiRequest* request) {
  std::set<std::string_view> known;
  for (const Field& field : fields()) {
    if ((field.endpoints & request->endpoint) == 0) continue;
    const auto value = body.find(field.name);
    if (value == body.end()) continue;
    known.insert(field.name);
    if (value->is_null()) continue;
    RETURN_IF_ERROR(field.read(field, *value, request));
    // Several JSON fields add to one field of a conversation: errors name the first. Any other
    // field replaces the value of an earlier one: errors name the last.
    if (std::string_view(field.grpc).starts_with("chat.")) {
      request->names.try_emplace(field.grpc, field.name);
    } else {
      request->names.insert_or_assign(field.grpc, field.name);
    }
  }
  for (const auto& [name, value] : body.items()) {
    if (!known.contains(name)) request->unknown_fields.push_back(name);
  }
  return absl::OkStatus();
}

// The field that contains all that the model reads.
const char* whole_of(Endpoint endpoint) {
  switch (endpoint) {
    case kCompletions:
      return "prompt";
    case kChat:
      return "messages";
    case kResponses:
      return "input";
    case kTokenize:
    case kDetokenize:
      return "messages";
  }
  return "";
}

// The name of the JSON field that sets a field of GenerateRequest; null: none.
const char* json_name(const std::string& field, const ApiRequest& request) {
  for (const char* prompt : {"prompt", "prompt_ids", "prompt_ids.ids", "chat"}) {
    if (field == prompt) return whole_of(request.endpoint);
  }
  const auto found = request.names.find(field);
  return found != request.names.end() ? found->second : nullptr;
}

// The body as an object; its "model", if given, must be a name of this model.
absl::StatusOr<OrderedJson> parse_body(const std::string& text, const Model& model) {
  ASSIGN_OR_RETURN(OrderedJson json, parse_ordered_json(text, "the body"));
  if (!json.is_object())
    return invalid_argument("the body: must be a JSON object, found another value");
  const auto name = json.find("model");
  if (name == json.end() || name->is_null()) return json;
  if (!name->is_string()) {
    return refusal("model", "must be the name of a model");
  }
  RETURN_IF_ERROR(check_model_name(model, name->get<std::string>()));
  return json;
}

absl::Status add_defaults(const Model& model, ApiRequest* request) {
  v1::GenerateRequest& message = request->shared;
  if (request->n == 0) request->n = message.has_n() ? message.n() : 1;
  if (request->endpoint == kCompletions) {
    if (!request->prompts[0].has_prompt() && !request->prompts[0].has_prompt_ids()) {
      return refusal("prompt", "must be given, found none");
    }
    if (!message.has_max_tokens() && !model.options().defaults.max_tokens.has_value()) {
      message.set_max_tokens(kCompletionTokens);
    }
    return absl::OkStatus();
  }
  if (message.chat().messages().empty()) {
    return refusal(whole_of(request->endpoint), "must have at least one message, found none");
  }
  if (!message.has_max_tokens() && !model.generation_config().max_new_tokens.has_value()) {
    message.set_max_tokens(
        static_cast<int32_t>(std::min<int64_t>(model.max_context(), kAllTokens)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status check_model_name(const Model& model, const std::string& name) {
  if (std::ranges::find(model.names(), name) != model.names().end()) return absl::OkStatus();
  return with_param(absl::NotFoundError(fmt::format(
                        "model: there is no model {}, this server has {}",
                        name.empty() ? "\"\"" : printable(name), fmt::join(model.names(), ", "))),
                    "model");
}

absl::StatusOr<ApiRequest> parse_request(Endpoint endpoint, const std::string& text,
                                         const Model& model) {
  ASSIGN_OR_RETURN(const OrderedJson body, parse_body(text, model));
  ApiRequest request;
  request.endpoint = endpoint;
  request.prompts.resize(1);
  request.n = 0;
  if (endpoint == kResponses) {
    ASSIGN_OR_RETURN(request.repeated, repeated_fields(body));
  }
  RETURN_IF_ERROR(read_fields(body, &request));
  if ((endpoint & (kTokenize | kDetokenize)) == 0) RETURN_IF_ERROR(add_defaults(model, &request));
  return request;
}

absl::Status in_json_words(const absl::Status& status, const ApiRequest& request) {
  if (status.code() != absl::StatusCode::kInvalidArgument) return status;
  if (is_too_long(status)) return with_param(status, whole_of(request.endpoint));
  const std::string field = field_of(status);
  // The longest part of the path that has a name: "chat.messages" of "chat.messages[0].role".
  for (size_t end = field.size(); end > 0;) {
    if (const char* name = json_name(field.substr(0, end), request); name != nullptr) {
      const std::string renamed = name + field.substr(end);
      return with_param(with_field(status, renamed), renamed);
    }
    const size_t parent = field.find_last_of(".[", end - 1);
    end = parent == std::string::npos ? 0 : parent;
  }
  return status;
}

}  // namespace lockstep::openai
