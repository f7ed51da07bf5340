// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/grpc/generate_call.h"

#include <atomic>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/system/clock.h"
#include "base/system/out_of_memory.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/api/grpc/answer_source.h"
#include "coordinator/api/grpc/caller.h"
#include "coordinator/api/traceparent.h"
#include "coordinator/engine/request_log.h"
#include "coordinator/http/grpc/wire.h"

namespace lockstep {
namespace {

class GenerateCall {
 public:
  GenerateCall(const ServedModel& served, std::shared_ptr<http::Exchange> exchange)
      : served_(served),
        exchange_(std::move(exchange)),
        deadline_ms_(deadline_ms_of(exchange_->request())) {
    exchange_->on_gone([gone = gone_] { *gone = true; });
  }

  // Checks that the engine's queue has room before the pool gets the bytes.
  static void hand_over(const std::shared_ptr<GenerateCall>& call, TaskPool* pool) {
    const absl::Status accepted = [&]() -> absl::Status {
      const http::Request& request = call->exchange_->request();
      ASSIGN_OR_RETURN(call->caller_, admit(call->served_.keys, request));
      RETURN_IF_ERROR(call->served_.engine->accepting(call->caller_.client));
      return pool->submit(call->caller_.client, static_cast<int64_t>(request.body.size()),
                          [call] { call->start(); });
    }();
    if (!accepted.ok()) call->refuse(accepted);
  }

 private:
  void start() {
    if (*gone_) return refuse(absl::CancelledError("the client is gone"));
    const absl::Status submitted = within_memory([&] { return submit(); });
    if (!submitted.ok()) refuse(submitted);
  }

  void refuse(const absl::Status& status) {
    const http::Request& request = exchange_->request();
    log_refused(caller_.client.empty() ? request.peer : caller_.client, request.path,
                traceparent_of(request.header("traceparent")), status);
    caller_.end_permit();
    fail(exchange_, status);
  }

  absl::Status submit() {
    v1::GenerateRequest message;
    RETURN_IF_ERROR(read_message(exchange_->request(), &message));
    exchange_->drop_body();
    ASSIGN_OR_RETURN(EngineRequest request, to_request(message, *served_.model));
    RETURN_IF_ERROR(served_.check_priority(caller_.permit.get(), request.priority));
    const std::string id = request.id;
    request.client = caller_.client;
    request.endpoint = exchange_->request().path;
    request.traceparent = traceparent_of(exchange_->request().header("traceparent"));
    if (!message.resumable()) request.deadline_ms = deadline_ms_;
    RETURN_IF_ERROR(served_.check_wait(request));
    std::shared_ptr<StreamReader> reader;
    if (message.resumable()) {
      ASSIGN_OR_RETURN(reader, submit_resumable(message, std::move(request)));
    } else {
      ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, served_.engine->submit(std::move(request)));
      reader = std::make_shared<SoleReader>(served_.engine, std::move(stream));
    }
    answer_with(exchange_, served_, caller_, id, reader, /*from=*/0);
    return absl::OkStatus();
  }

  // A resumable request continues without this call, so it does not take the call's deadline. It
  // counts as a request of its key until it ends.
  absl::StatusOr<std::unique_ptr<StreamReader>> submit_resumable(const v1::GenerateRequest& message,
                                                                 EngineRequest request) const {
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

  const ServedModel served_;
  const std::shared_ptr<http::Exchange> exchange_;
  const int64_t deadline_ms_;
  Caller caller_;  // Set before the pool has this object.
  const std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

void answer_generate(const ServedModel& served, TaskPool* pool,
                     std::shared_ptr<http::Exchange> exchange) {
  GenerateCall::hand_over(std::make_shared<GenerateCall>(served, std::move(exchange)), pool);
}

}  // namespace lockstep
