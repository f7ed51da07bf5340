// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/grpc/generate_reactor.h"

#include <algorithm>
#include <chrono>

#include "base/sockets/address.h"
#include "base/status.h"
#include "base/system/clock.h"
#include "base/system/out_of_memory.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/api/traceparent.h"
#include "coordinator/engine/request_log.h"

namespace lockstep {
namespace {

constexpr char kGenerateMethod[] = "/lockstep.v1.Generation/Generate";

// A call's deadline on the steady clock; 0: it has none.
int64_t steady_deadline_ms(std::chrono::system_clock::time_point deadline) {
  constexpr std::chrono::hours kForever{24 * 365};
  const auto left = deadline - std::chrono::system_clock::now();
  if (deadline == std::chrono::system_clock::time_point::max() || left > kForever) return 0;
  const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  return std::max<int64_t>(steady_now_ms() + left_ms, 1);
}

// The call's metadata `traceparent`; "" if there are several.
std::string traceparent_in(const grpc::CallbackServerContext& context) {
  const auto [first, last] = context.client_metadata().equal_range("traceparent");
  if (first == last || std::next(first) != last) return "";
  return traceparent_of({first->second.data(), first->second.size()});
}

}  // namespace

GenerateReactor::GenerateReactor(const ServedModel& served, TaskPool* pool,
                                 grpc::CallbackServerContext* context, const grpc::ByteBuffer& body)
    : StreamReactor(served, context) {
  const absl::Status accepted = hand_over(pool, body);
  if (!accepted.ok()) refuse(accepted);
}

absl::Status GenerateReactor::hand_over(TaskPool* pool, const grpc::ByteBuffer& body) {
  ASSIGN_OR_RETURN(caller_, admit(served_.keys, *context_));
  RETURN_IF_ERROR(served_.engine->accepting(caller_.client));
  return pool->submit(caller_.client, static_cast<int64_t>(body.Length()),
                      [this, body] { start(body); });
}

void GenerateReactor::start(grpc::ByteBuffer body) {
  if (context_->IsCancelled()) return Finish(grpc::Status::CANCELLED);
  const absl::Status submitted = within_memory([&] { return submit(&body); });
  if (!submitted.ok()) refuse(submitted);
}

void GenerateReactor::refuse(const absl::Status& status) {
  const bool is_known = !caller_.client.empty();
  log_refused(is_known ? caller_.client : address_of_grpc_peer(context_->peer()), kGenerateMethod,
              traceparent_in(*context_), status);
  caller_.end_permit();
  Finish(to_grpc(status));
}

absl::Status GenerateReactor::submit(grpc::ByteBuffer* body) {
  v1::GenerateRequest message;
  RETURN_IF_ERROR(parse(body, &message));
  ASSIGN_OR_RETURN(EngineRequest request, to_request(message, *served_.model));
  if (caller_.permit != nullptr) RETURN_IF_ERROR(caller_.permit->check_priority(request.priority));
  std::string id = request.id;
  request.client = caller_.client;
  request.endpoint = kGenerateMethod;
  request.traceparent = traceparent_in(*context_);
  if (!message.resumable()) request.deadline_ms = steady_deadline_ms(context_->deadline());
  RETURN_IF_ERROR(served_.check_wait(request));
  std::shared_ptr<StreamReader> reader;
  if (message.resumable()) {
    ASSIGN_OR_RETURN(reader, submit_resumable(message, std::move(request)));
  } else {
    ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, served_.engine->submit(std::move(request)));
    reader = std::make_shared<SoleReader>(served_.engine, std::move(stream));
  }
  follow(std::move(id), reader, /*from=*/0);
  return absl::OkStatus();
}

// The resumable request runs on without this call, so it does not take the call's deadline. It
// counts as a request of its key until it ends.
absl::StatusOr<std::unique_ptr<StreamReader>> GenerateReactor::submit_resumable(
    const v1::GenerateRequest& message, EngineRequest request) {
  RETURN_IF_ERROR(served_.check_resumable());
  ResumableParams wanted = {.name = {.owner = served_.owner_of(caller_.client), .id = request.id},
                            .facts = {.is_chat = message.has_chat(),
                                      .logprobs = message.has_logprobs(),
                                      .created_s = unix_seconds()},
                            .permit = caller_.permit};
  ASSIGN_OR_RETURN(
      const std::shared_ptr<ResumableStream> resumable,
      served_.resumable->submit(served_.engine, std::move(request), std::move(wanted)));
  return resumable->log().open(/*from=*/0);
}

}  // namespace lockstep
