// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/grpc/generation_service.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string>

#include "base/status.h"
#include "base/system/out_of_memory.h"
#include "base/version.h"
#include "coordinator/api/grpc/answer_source.h"
#include "coordinator/api/grpc/caller.h"
#include "coordinator/api/grpc/generate_call.h"
#include "coordinator/api/text_of_ids.h"
#include "coordinator/http/grpc/wire.h"
#include "proto/generate.pb.h"

namespace lockstep {
namespace {

using http::Exchange;

constexpr size_t kMaxSmallBytes = 4096;  // The limit of messages whose fields are small.

absl::Status tokenize(const Model& model, const v1::TokenizeRequest& request,
                      v1::TokenizeResponse* response) {
  ASSIGN_OR_RETURN(const Tokenizer* tokenizer, tokenizer_of(model));
  EncodeOptions options;
  options.add_special = !request.has_add_special() || request.add_special();
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer->encode(request.text(), options));
  response->mutable_ids()->Add(ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status detokenize(const Model& model, const v1::DetokenizeRequest& request,
                        v1::DetokenizeResponse* response) {
  RETURN_IF_ERROR(tokenizer_of(model).status());
  const std::span<const int32_t> ids(request.ids().data(),
                                     static_cast<size_t>(request.ids().size()));
  absl::StatusOr<std::string> text = text_of_ids(model, ids, !request.keep_special());
  if (!text.ok()) return invalid_argument("ids: {}", message_of(text.status()));
  response->set_text(*std::move(text));
  return absl::OkStatus();
}

absl::Status parse_small(const http::Request& request, google::protobuf::Message* message) {
  const size_t bytes = request.body.size() - std::min(request.body.size(), kMessagePrefix);
  if (bytes <= kMaxSmallBytes) return read_message(request, message);
  return invalid_argument("{}: must have up to {} bytes, found {}",
                          message->GetDescriptor()->name(), kMaxSmallBytes, bytes);
}

v1::GetModelResponse model_of(const ServedModel& served) {
  const Model& model = *served.model;
  const EngineStats stats = served.engine->stats();
  const GroupInfo& group = stats.group;
  v1::GetModelResponse response;
  response.set_name(model.name());
  response.set_architecture(model.config().architecture);
  const int64_t room = group.servable_context();  // 0 before the first group.
  const int64_t context = model.max_context();
  response.set_context_length(static_cast<int32_t>(room > 0 ? std::min(context, room) : context));
  response.set_vocabulary(static_cast<int32_t>(model.config().vocab_size));
  response.set_workers(served.workers);
  response.set_strategy(strategy_name(model.options().strategy));
  response.set_numeric_class(group.numeric_class);
  response.set_ready(stats.ready);
  response.set_weight_bytes(group.weight_bytes);
  response.set_pages_total(group.pages);
  response.set_pages_free(stats.pages_free);
  response.set_page_tokens(group.page_tokens);
  response.set_running(static_cast<int32_t>(stats.running));
  response.set_waiting(static_cast<int32_t>(stats.waiting));
  response.set_version(kVersion);
  response.set_pages_cached(stats.pages_cached);
  response.set_prefix_queries(stats.prefix.queries);
  response.set_prefix_hits(stats.prefix.hits);
  return response;
}

// Submits a task to the pool, which parses the request, calls `answer` and sends the response.
template <typename Request, typename Response>
void answer_on_pool(const ApiKeys* keys, TaskPool* pool, const std::shared_ptr<Exchange>& exchange,
                    const std::function<absl::Status(const Request&, Response*)>& answer) {
  const absl::StatusOr<Caller> caller = admit(keys, exchange->request());
  if (!caller.ok()) return fail(exchange, caller.status());
  const auto run = [exchange, caller = *caller, answer] {
    Response response;
    const absl::Status status = within_memory([&]() -> absl::Status {
      Request request;
      RETURN_IF_ERROR(read_message(exchange->request(), &request));
      exchange->drop_body();
      return answer(request, &response);
    });
    caller.end_permit();
    status.ok() ? reply(exchange, response) : fail(exchange, status);
  };
  const auto bytes = static_cast<int64_t>(exchange->request().body.size());
  const absl::Status accepted = pool->submit(caller->client, bytes, run);
  if (accepted.ok()) return;
  caller->end_permit();
  fail(exchange, accepted);
}

}  // namespace

// Other methods than the first three are answered on this thread, even if the pool is busy: they
// take microseconds.
void GenerationService::answer(const std::shared_ptr<Exchange>& exchange) const {
  const std::string_view method = std::string_view(exchange->request().path).substr(kPrefix.size());
  if (method == "Generate") return answer_generate(served_, pool_, exchange);
  if (method == "Tokenize") {
    return answer_on_pool<v1::TokenizeRequest, v1::TokenizeResponse>(
        served_.keys, pool_, exchange, [model = served_.model](const auto& request, auto* message) {
          return tokenize(*model, request, message);
        });
  }
  if (method == "Detokenize") {
    return answer_on_pool<v1::DetokenizeRequest, v1::DetokenizeResponse>(
        served_.keys, pool_, exchange, [model = served_.model](const auto& request, auto* message) {
          return detokenize(*model, request, message);
        });
  }
  const absl::Status status = method == "Resume"     ? resume(exchange)
                              : method == "Cancel"   ? cancel(exchange)
                              : method == "GetModel" ? describe(exchange)
                                                     : no_such_method();
  if (!status.ok()) fail(exchange, status);
}

absl::Status GenerationService::resume(const std::shared_ptr<Exchange>& exchange) const {
  ASSIGN_OR_RETURN(const Caller caller, admit(served_.keys, exchange->request(), /*counts=*/false));
  v1::ResumeRequest request;
  RETURN_IF_ERROR(parse_small(exchange->request(), &request));
  ASSIGN_OR_RETURN(const std::shared_ptr<ResumableStream> resumable,
                   served_.find_resumable(caller.client, request.request_id()));
  ASSIGN_OR_RETURN(const std::shared_ptr<StreamReader> reader,
                   resumable->log().open(request.from()));
  answer_with(exchange, served_, caller, request.request_id(), reader, request.from());
  return absl::OkStatus();
}

absl::Status GenerationService::cancel(const std::shared_ptr<Exchange>& exchange) const {
  ASSIGN_OR_RETURN(const Caller caller, admit(served_.keys, exchange->request(), /*counts=*/false));
  v1::CancelRequest request;
  RETURN_IF_ERROR(parse_small(exchange->request(), &request));
  ASSIGN_OR_RETURN(const std::shared_ptr<ResumableStream> resumable,
                   served_.find_resumable(caller.client, request.request_id()));
  resumable->cancel();
  reply(exchange, v1::CancelResponse());
  return absl::OkStatus();
}

absl::Status GenerationService::describe(const std::shared_ptr<Exchange>& exchange) const {
  RETURN_IF_ERROR(admit(served_.keys, exchange->request()).status());
  v1::GetModelRequest request;
  RETURN_IF_ERROR(parse_small(exchange->request(), &request));
  reply(exchange, model_of(served_));
  return absl::OkStatus();
}

}  // namespace lockstep
