// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/api.h"

#include <algorithm>

#include "base/clock.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "coordinator/api/chat_prompt.h"
#include "coordinator/openai/api_request.h"
#include "coordinator/openai/error.h"
#include "coordinator/openai/resumption.h"
#include "coordinator/openai/values.h"

namespace lockstep::openai {
namespace {

using ExchangePtr = std::shared_ptr<http::Exchange>;

int64_t servable_context(const ServedModel& served) {
  const int64_t room = served.engine->stats().group.servable_context();  // 0 before there is one.
  return room > 0 ? std::min(served.model->max_context(), room) : served.model->max_context();
}

OrderedJson model_json(const ApiContext& context, int64_t created) {
  const ServedModel& served = context.served;
  return {{"id", served.model->name()},
          {"object", "model"},
          {"created", created},
          {"owned_by", "lockstep"},
          {"root", served.model->name()},
          {"parent", nullptr},
          {"max_model_len", servable_context(served)},
          {"tool_parser", name_of(context.formats.tools)},
          {"reasoning_parser", name_of(context.formats.thoughts)}};
}

void get_model(const ApiContext& context, int64_t created, const ExchangePtr& exchange) {
  const ServedModel& served = context.served;
  constexpr std::string_view kPrefix = "/v1/models/";
  const std::string wanted = exchange->request().path.substr(kPrefix.size());
  if (wanted == served.model->name()) {
    return exchange->respond(http::json_response(model_json(context, created)));
  }
  const absl::Status missing = absl::NotFoundError(fmt::format(
      "model: there is no model {}, this server has {}", printable(wanted), served.model->name()));
  exchange->respond(error_response(with_param(missing, "model")));
}

absl::StatusOr<const Tokenizer*> tokenizer_of(const Model& model) {
  if (model.tokenizer() != nullptr) return model.tokenizer();
  return failed_precondition("{}", model.without_tokenizer());
}

absl::StatusOr<bool> flag_of(const OrderedJson& body, const char* name, bool fallback) {
  const auto found = body.find(name);
  if (found == body.end() || found->is_null()) return fallback;
  return as_bool(name, *found);
}

// The ids of "prompt", or of "messages" with what belongs to them.
absl::StatusOr<std::vector<int32_t>> tokens_of(const OrderedJson& body, const Model& model) {
  ASSIGN_OR_RETURN(const Tokenizer* tokenizer, tokenizer_of(model));
  const bool is_chat = body.contains("messages") && !body["messages"].is_null();
  EncodeOptions options;
  ASSIGN_OR_RETURN(options.add_special, flag_of(body, "add_special_tokens", !is_chat));
  if (is_chat) {
    ASSIGN_OR_RETURN(const ApiRequest request, read_request(kChat, body, model));
    absl::StatusOr<MarkedText> prompt = render_chat(request.shared.chat(), model);
    if (!prompt.ok()) return in_json_words(prompt.status(), kChat);
    return tokenizer->encode(*prompt, options.add_special);
  }
  ASSIGN_OR_RETURN(const std::string prompt,
                   as_string("prompt", body.contains("prompt") ? body["prompt"] : OrderedJson()));
  return tokenizer->encode(prompt, options);
}

absl::StatusOr<OrderedJson> tokenize(const ServedModel& served, const std::string& text) {
  ASSIGN_OR_RETURN(const OrderedJson body, parse_body(text, *served.model));
  ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokens_of(body, *served.model));
  ASSIGN_OR_RETURN(const bool wants_texts, flag_of(body, "return_token_strs", false));
  OrderedJson texts;
  for (size_t i = 0; wants_texts && i < tokens.size(); ++i) {
    texts.push_back(served.model->tokenizer()->token_text(tokens[i]));
  }
  return OrderedJson{{"count", tokens.size()},
                     {"max_model_len", servable_context(served)},
                     {"tokens", tokens},
                     {"token_strs", std::move(texts)}};
}

absl::StatusOr<OrderedJson> detokenize(const ServedModel& served, const std::string& text) {
  ASSIGN_OR_RETURN(const OrderedJson body, parse_body(text, *served.model));
  ASSIGN_OR_RETURN(const Tokenizer* tokenizer, tokenizer_of(*served.model));
  ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                   as_ids("tokens", body.contains("tokens") ? body["tokens"] : OrderedJson()));
  const int64_t vocabulary = served.model->config().vocab_size;
  for (const int32_t id : tokens) {
    if (0 <= id && id < vocabulary) continue;
    return refusal("tokens",
                   fmt::format("want token ids of 0 to {}, found {}", vocabulary - 1, id));
  }
  return OrderedJson{{"prompt", tokenizer->decode(tokens, /*skip_special=*/false)}};
}

// Has the pool read the body.
using Answer = absl::StatusOr<OrderedJson> (*)(const ServedModel& served, const std::string& text);
void answer_on_pool(ApiContext* context, const ExchangePtr& exchange, Answer answer) {
  const auto run = [context, exchange, answer] {
    http::Response response;
    const absl::Status status = within_memory([&]() -> absl::Status {
      ASSIGN_OR_RETURN(const OrderedJson json, answer(context->served, exchange->request().body));
      response = http::json_response(json);
      return absl::OkStatus();
    });
    exchange->respond(status.ok() ? std::move(response) : error_response(status));
  };
  const http::Request& request = exchange->request();
  const absl::Status accepted =
      context->pool->submit(exchange->client(), static_cast<int64_t>(request.body.size()), run);
  if (!accepted.ok()) exchange->respond(error_response(accepted));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Api>> Api::create(const ServedModel& served, TaskPool* pool,
                                                 const ApiOptions& options) {
  std::unique_ptr<Api> api(new Api);
  api->context_.served = served;
  api->context_.pool = pool;
  const absl::StatusOr<const ChatTemplate*> found = served.model->chat_template();
  const ChatTemplate* chat_template = found.ok() ? *found : nullptr;
  ASSIGN_OR_RETURN(api->context_.formats,
                   choose_formats(options.tool_parser, options.reasoning_parser, chat_template));
  const FormatChoice& formats = api->context_.formats;
  if (const Tokenizer* tokenizer = served.model->tokenizer(); tokenizer != nullptr) {
    api->context_.special_ids = special_ids(*tokenizer);
    if (formats.tools != nullptr) {
      api->context_.tool_tag_ids = tag_ids(call_tags(*formats.tools), *tokenizer);
    }
    if (formats.thoughts != nullptr) {
      api->context_.thought_tag_ids = tag_ids(thought_tags(*formats.thoughts), *tokenizer);
    }
  }
  return api;
}

std::vector<http::Route> Api::routes() {
  ApiContext* context = &context_;
  const int64_t created = unix_seconds();
  const auto list = [context, created](const ExchangePtr& exchange) {
    OrderedJson models = OrderedJson::array({model_json(*context, created)});
    exchange->respond(http::json_response({{"object", "list"}, {"data", std::move(models)}}));
  };
  const auto one = [context, created](const ExchangePtr& exchange) {
    get_model(*context, created, exchange);
  };
  const auto generate = [context](Endpoint endpoint) {
    return [context, endpoint](const ExchangePtr& exchange) {
      Generation::begin(endpoint, context, exchange);
    };
  };
  const auto text = [context](Answer answer) {
    return [context, answer](const ExchangePtr& exchange) {
      answer_on_pool(context, exchange, answer);
    };
  };
  const auto of_stream = [context](auto act) {
    return [context, act](const ExchangePtr& exchange, const http::PathParameters& parameters) {
      act(context, exchange, parameters[0].second);
    };
  };
  return {{"GET", "/v1/models", list},
          {"GET", "/v1/models/{model}", one},
          {"GET", "/v1/models/{organization}/{model}", one},
          {"POST", "/v1/completions", generate(kCompletions)},
          {"POST", "/v1/chat/completions", generate(kChat)},
          {"POST", "/v1/responses", generate(kResponses)},
          {"GET", "/v1/streams/{request}", of_stream(resume_stream)},
          {"DELETE", "/v1/streams/{request}", of_stream(cancel_stream)},
          {"POST", "/tokenize", text(tokenize)},
          {"POST", "/detokenize", text(detokenize)}};
}

}  // namespace lockstep::openai
