// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/api.h"

#include <algorithm>
#include <iterator>

#include "base/status.h"
#include "base/system/clock.h"
#include "coordinator/openai/answers/resumption.h"
#include "coordinator/openai/api_request.h"
#include "coordinator/openai/error.h"
#include "coordinator/openai/text_routes.h"

namespace lockstep::openai {
namespace {

using ExchangePtr = std::shared_ptr<http::Exchange>;

OrderedJson model_json(const ApiContext& context, const std::string& name, int64_t created) {
  const ServedModel& served = context.served;
  return {{"id", name},
          {"object", "model"},
          {"created", created},
          {"owned_by", "lockstep"},
          {"root", served.model->name()},
          {"parent", nullptr},
          {"max_model_len", served.servable_context()},
          {"permission", OrderedJson::array()},
          {"tool_parser", name_of(context.formats.tools)},
          {"reasoning_parser", name_of(context.formats.thoughts)}};
}

// A model's name may contain slashes.
void get_model(const ApiContext& context, int64_t created, const ExchangePtr& exchange,
               const http::PathParameters& parameters) {
  std::string wanted;
  for (const auto& [key, segment] : parameters) wanted += (wanted.empty() ? "" : "/") + segment;
  const absl::Status known = check_model_name(*context.served.model, wanted);
  exchange->respond(known.ok() ? http::json_response(model_json(context, wanted, created))
                               : error_response(known));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Api>> Api::create(const ServedModel& served, TaskPool* pool,
                                                 const ApiOptions& options) {
  std::unique_ptr<Api> api(new Api);
  api->context_.served = served;
  api->context_.pool = pool;
  api->context_.max_held_bytes = options.max_held_bytes;
  RETURN_IF_ERROR(api->context_.unknown_fields.set_mode(options.unknown_fields));
  const absl::StatusOr<const ChatTemplate*> found = served.model->chat_template();
  const ChatTemplate* chat_template = found.ok() ? *found : nullptr;
  ASSIGN_OR_RETURN(api->context_.formats,
                   choose_formats(options.tool_parser, options.reasoning_parser, chat_template));
  const FormatChoice& formats = api->context_.formats;
  if (const Tokenizer* tokenizer = served.model->tokenizer(); tokenizer != nullptr) {
    const std::vector<int32_t>& special = api->context_.special_ids = special_ids(*tokenizer);
    if (formats.tools != nullptr) {
      api->context_.tool_tag_ids = tag_ids(call_tags(*formats.tools), special, *tokenizer);
    }
    if (formats.thoughts != nullptr) {
      api->context_.thought_tag_ids = tag_ids(thought_tags(*formats.thoughts), special, *tokenizer);
    }
  }
  return api;
}

std::vector<http::Route> Api::routes() {
  ApiContext* context = &context_;
  const int64_t created = unix_seconds();
  const auto list = [context, created](const ExchangePtr& exchange) {
    OrderedJson models = OrderedJson::array();
    for (const std::string& name : context->served.model->names()) {
      models.push_back(model_json(*context, name, created));
    }
    exchange->respond(http::json_response({{"object", "list"}, {"data", std::move(models)}}));
  };
  const auto one = [context, created](const ExchangePtr& exchange,
                                      const http::PathParameters& parameters) {
    get_model(*context, created, exchange, parameters);
  };
  const auto generate = [context](Endpoint endpoint) {
    return [context, endpoint](const ExchangePtr& exchange) {
      Generation::begin(endpoint, context, exchange);
    };
  };
  const auto of_stream = [context](auto act) {
    return [context, act](const ExchangePtr& exchange, const http::PathParameters& parameters) {
      act(context, exchange, parameters[0].second);
    };
  };
  std::vector<http::Route> routes = {{"GET", "/v1/models", list},
                                     {"GET", "/v1/models/{model}", one},
                                     {"GET", "/v1/models/{organization}/{model}", one},
                                     {"POST", "/v1/completions", generate(kCompletions)},
                                     {"POST", "/v1/chat/completions", generate(kChat)},
                                     {"POST", "/v1/responses", generate(kResponses)},
                                     {"GET", "/v1/streams/{request}", of_stream(resume_stream)},
                                     {"DELETE", "/v1/streams/{request}", of_stream(cancel_stream)}};
  std::ranges::move(text_routes(context), std::back_inserter(routes));
  return routes;
}

}  // namespace lockstep::openai
