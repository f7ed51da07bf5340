// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/text_routes.h"

#include "base/status.h"
#include "base/system/out_of_memory.h"
#include "coordinator/api/chat/chat_prompt.h"
#include "coordinator/api/limits.h"
#include "coordinator/api/text_of_ids.h"
#include "coordinator/openai/api_request.h"
#include "coordinator/openai/error.h"
#include "coordinator/openai/fields/values.h"

namespace lockstep::openai {
namespace {

using ExchangePtr = std::shared_ptr<http::Exchange>;

bool add_special(const ApiRequest& request, bool fallback) {
  return request.shared.has_add_special() ? request.shared.add_special() : fallback;
}

// Renders a chat's prompt, with the same limits as for a chat that is answered.
absl::StatusOr<MarkedText> chat_prompt(const ApiRequest& request, const Model& model) {
  const auto render = [&]() -> absl::StatusOr<MarkedText> {
    RETURN_IF_ERROR(check_limits(request.shared));
    return render_chat(request.shared.chat(), model);
  };
  absl::StatusOr<MarkedText> prompt = render();
  if (!prompt.ok()) return in_json_words(prompt.status(), request);
  return prompt;
}

absl::StatusOr<std::vector<int32_t>> tokens_of_chat(const MarkedText& prompt,
                                                    const ApiRequest& request, const Model& model) {
  ASSIGN_OR_RETURN(const Tokenizer* tokenizer, tokenizer_of(model));
  return tokenizer->encode(prompt, add_special(request, /*fallback=*/false));
}

absl::StatusOr<std::vector<int32_t>> tokens_of(const ApiRequest& request, const Model& model) {
  ASSIGN_OR_RETURN(const Tokenizer* tokenizer, tokenizer_of(model));
  if (request.shared.chat().messages_size() > 0) {
    ASSIGN_OR_RETURN(const MarkedText prompt, chat_prompt(request, model));
    return tokens_of_chat(prompt, request, model);
  }
  if (request.prompts.size() != 1 || !request.prompts[0].has_prompt()) {
    return refusal("prompt", "must be a string; or send messages");
  }
  EncodeOptions options;
  options.add_special = add_special(request, /*fallback=*/true);
  return tokenizer->encode(request.prompts[0].prompt(), options);
}

// The max number of texts in one answer: as many as the ids that /detokenize accepts.
constexpr size_t kMaxTokenTexts = 1 << 18;

absl::StatusOr<OrderedJson> tokenize(const ApiContext& context, const ApiRequest& request) {
  const v1::GenerateRequest& prompt = request.prompts[0];
  const bool has_prompt =
      request.prompts.size() > 1 || prompt.has_prompt() || prompt.has_prompt_ids();
  if (has_prompt && request.shared.chat().messages_size() > 0) {
    return refusal("messages", "must not be sent with a prompt");
  }
  ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokens_of(request, *context.served.model));
  if (request.return_token_strs && tokens.size() > kMaxTokenTexts) {
    return refusal(
        "return_token_strs",
        fmt::format("must have at most {} tokens, found {}; send less at once, or leave it out",
                    kMaxTokenTexts, tokens.size()));
  }
  OrderedJson texts;
  for (size_t i = 0; request.return_token_strs && i < tokens.size(); ++i) {
    texts.push_back(context.served.model->tokenizer()->token_text(tokens[i]));
  }
  return OrderedJson{{"count", tokens.size()},
                     {"max_model_len", context.served.servable_context()},
                     {"tokens", tokens},
                     {"token_strs", std::move(texts)}};
}

absl::StatusOr<OrderedJson> detokenize(const ApiContext& context, const ApiRequest& request) {
  const Model& model = *context.served.model;
  RETURN_IF_ERROR(tokenizer_of(model).status());
  if (!request.tokens.has_value()) {
    return wrong_value("tokens", "a list of token ids", OrderedJson());
  }
  absl::StatusOr<std::string> text = text_of_ids(model, *request.tokens, /*skip_special=*/false);
  if (!text.ok()) return refusal("tokens", message_of(text.status()));
  return OrderedJson{{"prompt", *std::move(text)}};
}

// The prompt of a chat, and the parsers of its answer.
absl::StatusOr<OrderedJson> render(const ApiContext& context, const ApiRequest& request) {
  const Model& model = *context.served.model;
  const v1::ChatMessages& chat = request.shared.chat();
  ASSIGN_OR_RETURN(const MarkedText prompt, chat_prompt(request, model));
  ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokens_of_chat(prompt, request, model));
  ASSIGN_OR_RETURN(const ChatTemplate* chat_template, model.chat_template());
  return OrderedJson{
      {"object", "chat.completion.prompt"},
      {"model", model.name()},
      {"prompt", prompt.bytes},
      {"tokens", tokens},
      {"count", tokens.size()},
      {"max_model_len", context.served.servable_context()},
      {"chat_template", chat_template->name(chat.tools_size() > 0, chat.documents_size() > 0)},
      {"tool_parser", name_of(context.formats.tools)},
      {"reasoning_parser", name_of(context.formats.thoughts)}};
}

absl::StatusOr<OrderedJson> count_input(const ApiContext& context, const ApiRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, tokens_of(request, *context.served.model));
  return OrderedJson{{"object", "response.input_tokens"}, {"input_tokens", tokens.size()}};
}

// A route whose body is read on the pool.
struct TextCall {
  Endpoint endpoint;
  absl::StatusOr<OrderedJson> (*answer)(const ApiContext& context, const ApiRequest& request);
};

absl::StatusOr<http::Response> respond_to(const TextCall& call, ApiContext* context,
                                          const http::Exchange& exchange) {
  ASSIGN_OR_RETURN(const ApiRequest request,
                   parse_request(call.endpoint, exchange.request().body, *context->served.model));
  ASSIGN_OR_RETURN(std::string ignored,
                   context->unknown_fields.take(exchange, request.unknown_fields));
  ASSIGN_OR_RETURN(const OrderedJson json, call.answer(*context, request));
  http::Response response = http::json_response(json);
  if (!ignored.empty()) response.headers.emplace_back(kIgnoredFields, std::move(ignored));
  return response;
}

void answer_on_pool(ApiContext* context, const ExchangePtr& exchange, const TextCall& call) {
  const auto run = [context, exchange, call] {
    http::Response response;
    const absl::Status status = within_memory([&]() -> absl::Status {
      ASSIGN_OR_RETURN(response, respond_to(call, context, *exchange));
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

std::vector<http::Route> text_routes(ApiContext* context) {
  const auto route = [context](const char* path, const TextCall& call) {
    return http::Route("POST", path, [context, call](const ExchangePtr& exchange) {
      answer_on_pool(context, exchange, call);
    });
  };
  return {route("/v1/chat/completions/render", {kChat, render}),
          route("/v1/responses/input_tokens", {kResponses, count_input}),
          route("/tokenize", {kTokenize, tokenize}),
          route("/detokenize", {kDetokenize, detokenize})};
}

}  // namespace lockstep::openai
