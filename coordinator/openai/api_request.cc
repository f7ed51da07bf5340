// SPDX-License-Identifier: Apache-2.0
// Walks the table of fields.
#include "coordinator/openai/api_request.h"

#include <algorithm>
#include <string_view>

#include "base/status.h"
#include "coordinator/openai/error.h"
#include "coordinator/openai/response_writer.h"

namespace lockstep::openai {
namespace {

constexpr int32_t kCompletionTokens = 16;  // OpenAI's default.

absl::Status read_fields(const OrderedJson& body, ApiRequest* request) {
  size_t known = 0;
  for (const Field& field : fields()) {
    const auto value = body.find(field.name);
    if (value == body.end() || (field.endpoints & request->endpoint) == 0) continue;
    ++known;
    if (!value->is_null()) RETURN_IF_ERROR(field.read(field, *value, request));
  }
  request->unknown_fields = static_cast<int>(body.size() - known);
  return absl::OkStatus();
}

// -1 is how some clients say "off".
OrderedJson with_our_words(OrderedJson body) {
  const auto top_k = body.find("top_k");
  if (top_k != body.end() && top_k->is_number() && top_k->get<double>() == -1) *top_k = 0;
  return body;
}

// The field that has all that the model reads.
const char* whole_of(Endpoint endpoint) {
  switch (endpoint) {
    case kCompletions:
      return "prompt";
    case kChat:
      return "messages";
    case kResponses:
      return "input";
  }
  return "";
}

absl::Status add_defaults(const Model& model, ApiRequest* request) {
  v1::GenerateRequest& message = request->shared;
  if (request->n == 0) request->n = message.has_n() ? message.n() : 1;
  if (request->endpoint == kCompletions) {
    if (!request->prompts[0].has_prompt() && !request->prompts[0].has_prompt_ids()) {
      return with_param(invalid_argument("prompt: want one, found none"), "prompt");
    }
    if (!message.has_max_tokens()) message.set_max_tokens(kCompletionTokens);
    return absl::OkStatus();
  }
  if (message.chat().messages().empty()) {
    const char* name = whole_of(request->endpoint);
    return with_param(invalid_argument("{}: want at least one message, found none", name), name);
  }
  if (!message.has_max_tokens() && !model.generation_config().max_new_tokens.has_value()) {
    message.set_max_tokens(static_cast<int32_t>(std::min<int64_t>(model.max_context(), 1 << 30)));
  }
  return absl::OkStatus();
}

}  // namespace

v1::GenerateRequest ApiRequest::message(size_t index) const {
  v1::GenerateRequest message = shared;
  message.MergeFrom(prompts[index]);
  return message;
}

absl::StatusOr<OrderedJson> parse_body(const std::string& body, const Model& model) {
  ASSIGN_OR_RETURN(OrderedJson json, parse_ordered_json(body, "the body"));
  if (!json.is_object())
    return invalid_argument("the body: want a JSON object, found another value");
  const auto name = json.find("model");
  if (name == json.end() || name->is_null() || *name == model.name()) return json;
  if (!name->is_string()) {
    return with_param(invalid_argument("model: want the name of a model"), "model");
  }
  return with_param(
      absl::NotFoundError(fmt::format("model: there is no model {}, this server has {}",
                                      printable(name->get<std::string>()), model.name())),
      "model");
}

absl::StatusOr<ApiRequest> parse_request(Endpoint endpoint, const std::string& body,
                                         const Model& model) {
  ASSIGN_OR_RETURN(OrderedJson json, parse_body(body, model));
  return read_request(endpoint, std::move(json), model);
}

absl::StatusOr<ApiRequest> read_request(Endpoint endpoint, OrderedJson body, const Model& model) {
  ApiRequest request;
  request.endpoint = endpoint;
  request.prompts.resize(1);
  request.n = 0;
  if (endpoint == kResponses) request.repeated = repeated_fields(body);
  RETURN_IF_ERROR(read_fields(with_our_words(std::move(body)), &request));
  RETURN_IF_ERROR(add_defaults(model, &request));
  return request;
}

absl::Status in_json_words(const absl::Status& status, Endpoint endpoint) {
  if (status.code() != absl::StatusCode::kInvalidArgument) return status;
  const std::string message = message_of(status);
  const auto renamed = [&](std::string_view from, std::string_view to) {
    const std::string text = std::string(to) + message.substr(from.size());
    absl::Status result = absl::InvalidArgumentError(text);
    status.ForEachPayload(
        [&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
    return with_param(result, text.substr(0, text.find(": ")));
  };
  const auto begins_with = [&](std::string_view name) {
    return message.starts_with(name) && message.size() > name.size() &&
           std::string_view(":.[").find(message[name.size()]) != std::string_view::npos;
  };
  const std::string_view whole = whole_of(endpoint);
  for (const std::string_view name : {"prompt_ids.ids", "prompt_ids", "prompt"}) {
    if (begins_with(name)) return renamed(name, whole);
  }
  for (const Field& field : fields()) {
    if ((field.endpoints & endpoint) != 0 && field.grpc[0] != '\0' && begins_with(field.grpc)) {
      return renamed(field.grpc, field.name);
    }
  }
  return begins_with("chat") ? renamed("chat", whole) : status;
}

}  // namespace lockstep::openai
