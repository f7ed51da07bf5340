// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/grpc/generation_service.h"

#include <algorithm>
#include <functional>
#include <span>

#include "base/sockets/address.h"
#include "base/status.h"
#include "base/system/out_of_memory.h"
#include "base/version.h"
#include "coordinator/api/grpc/generate_reactor.h"
#include "coordinator/api/grpc/resume_reactor.h"
#include "coordinator/api/grpc/wire.h"
#include "coordinator/api/text_of_ids.h"

namespace lockstep {
namespace {

constexpr size_t kMaxSmallBytes = 4096;  // The limit of messages whose fields are small.
constexpr int64_t kMaxUnreadBytes = 256 << 20;

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

absl::Status parse_small(grpc::ByteBuffer bytes, google::protobuf::Message* message) {
  if (bytes.Length() <= kMaxSmallBytes) return parse(&bytes, message);
  return invalid_argument("{}: must have up to {} bytes, found {}",
                          message->GetDescriptor()->name(), kMaxSmallBytes, bytes.Length());
}

v1::GetModelResponse describe(const ServedModel& served) {
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

// A call with one answer, which is counted until gRPC has sent it: gRPC keeps it whole until the
// client reads. Deletes itself.
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryReactor(BufferedBytes* unread) : unread_(unread) {}

  // Called before Finish(). kResourceExhausted: too many answers are unread.
  absl::Status hold(const std::string& client, int64_t bytes) {
    unread_.belong_to(client);
    const BufferedBytes::Sums sums = unread_.hold(bytes);
    if (sums.of_all <= kMaxUnreadBytes && sums.of_client <= kMaxUnreadBytes / 2) {
      return absl::OkStatus();
    }
    unread_.hold(0);
    return resource_exhausted(
        "unread answers: must have up to {} bytes, half of them for one key, or without keys for "
        "one "
        "network; read the answers, or send less at once",
        kMaxUnreadBytes);
  }

 private:
  void OnDone() override { delete this; }

  BufferedBytes::Share unread_;
};

// Has the pool parse the bytes and `answer` them; ends the call with the returned status.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* answer_on_pool(
    const ApiKeys* keys, TaskPool* pool, BufferedBytes* unread,
    grpc::CallbackServerContext* context, const grpc::ByteBuffer& body, grpc::ByteBuffer* response,
    std::function<absl::Status(const Request&, Response*)> answer) {
  auto* reactor = new UnaryReactor(unread);
  const absl::StatusOr<Caller> caller = admit(keys, *context);
  if (!caller.ok()) {
    reactor->Finish(to_grpc(caller.status()));
    return reactor;
  }
  const auto run = [=, caller = *caller, bytes = body, answer = std::move(answer)]() mutable {
    if (context->IsCancelled()) return reactor->Finish(grpc::Status::CANCELLED);
    const absl::Status status = within_memory([&]() -> absl::Status {
      Request request;
      Response message;
      RETURN_IF_ERROR(parse(&bytes, &request));
      RETURN_IF_ERROR(answer(request, &message));
      RETURN_IF_ERROR(reactor->hold(keys != nullptr ? caller.client : network_of(caller.client),
                                    static_cast<int64_t>(message.ByteSizeLong())));
      *response = serialize(message);
      return absl::OkStatus();
    });
    caller.end_permit();
    reactor->Finish(to_grpc(status));
  };
  const absl::Status accepted =
      pool->submit(caller->client, static_cast<int64_t>(body.Length()), run);
  if (!accepted.ok()) {
    caller->end_permit();
    reactor->Finish(to_grpc(accepted));
  }
  return reactor;
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* body) {
  auto* reactor = new GenerateReactor(served_, pool_, context, *body);
  // gRPC would keep the bytes until the call ends; the reactor has its own reference to them.
  const_cast<grpc::ByteBuffer*>(body)->Clear();
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerationService::Resume(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* body) {
  return new ResumeReactor(served_, context, *body);
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* body,
                                                      grpc::ByteBuffer* response) {
  return answer_on_pool<v1::TokenizeRequest, v1::TokenizeResponse>(
      served_.keys, pool_, &unread_, context, *body, response,
      [this](const auto& request, auto* message) {
        return tokenize(*served_.model, request, message);
      });
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* body,
                                                        grpc::ByteBuffer* response) {
  return answer_on_pool<v1::DetokenizeRequest, v1::DetokenizeResponse>(
      served_.keys, pool_, &unread_, context, *body, response,
      [this](const auto& request, auto* message) {
        return detokenize(*served_.model, request, message);
      });
}

// The next two are answered on this thread, even if the pool is busy: they take microseconds.
grpc::ServerUnaryReactor* GenerationService::GetModel(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* body,
                                                      grpc::ByteBuffer* response) {
  v1::GetModelRequest request;
  absl::Status status = admit(served_.keys, *context).status();
  if (status.ok()) status = parse_small(*body, &request);
  if (status.ok()) *response = serialize(describe(served_));
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(to_grpc(status));
  return reactor;
}

grpc::ServerUnaryReactor* GenerationService::Cancel(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* body,
                                                    grpc::ByteBuffer* response) {
  const auto cancel = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const Caller caller, admit(served_.keys, *context, /*counts=*/false));
    v1::CancelRequest request;
    RETURN_IF_ERROR(parse_small(*body, &request));
    ASSIGN_OR_RETURN(const std::shared_ptr<ResumableStream> resumable,
                     served_.find_resumable(caller.client, request.request_id()));
    resumable->cancel();
    *response = serialize(v1::CancelResponse());
    return absl::OkStatus();
  };
  const absl::Status status = cancel();
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(to_grpc(status));
  return reactor;
}

}  // namespace lockstep
