// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/generate_reactor.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <chrono>

#include "base/status.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/api/traceparent.h"
#include "coordinator/api/wire.h"

namespace lockstep {
namespace {

v1::FinishReason to_proto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return v1::FINISH_REASON_UNSPECIFIED;
    case FinishReason::kStop:
      return v1::STOP;
    case FinishReason::kLength:
      return v1::LENGTH;
    case FinishReason::kCancelled:
      return v1::CANCELLED;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

// A call's deadline on the steady clock; 0: it has none.
int64_t steady_ms(std::chrono::system_clock::time_point deadline) {
  using std::chrono::milliseconds;
  constexpr std::chrono::hours kForever{24 * 365};
  const auto left = deadline - std::chrono::system_clock::now();
  if (deadline == std::chrono::system_clock::time_point::max() || left > kForever) return 0;
  const auto at = std::chrono::steady_clock::now() + left;
  const auto ms = std::chrono::duration_cast<milliseconds>(at.time_since_epoch()).count();
  return std::max<int64_t>(ms, 1);
}

// Of its metadata; of several none counts.
std::string traceparent_in(const grpc::CallbackServerContext& context) {
  const auto [first, last] = context.client_metadata().equal_range("traceparent");
  if (first == last || std::next(first) != last) return "";
  return traceparent_of({first->second.data(), first->second.size()});
}

void fill(const Logprob& logprob, const Tokenizer* tokenizer, v1::TokenLogprob* message) {
  message->set_id(logprob.id);
  message->set_logprob(logprob.logprob);
  if (tokenizer != nullptr) {
    const int32_t ids[] = {logprob.id};
    message->set_text(tokenizer->decode(ids, /*skip_special=*/false));
  }
}

void fill(const std::vector<Logprob>& token, const Tokenizer* tokenizer,
          v1::TokenLogprobs* message) {
  for (size_t i = 0; i < token.size(); ++i) {
    fill(token[i], tokenizer, i == 0 ? message->mutable_chosen() : message->add_top());
  }
}

}  // namespace

GenerateReactor::GenerateReactor(const ServedModel& served, TaskPool* pool,
                                 grpc::CallbackServerContext* context, const grpc::ByteBuffer& body)
    : served_(served), context_(context) {
  const absl::Status accepted = hand_over(pool, body);
  if (!accepted.ok()) Finish(to_grpc(accepted));
}

absl::Status GenerateReactor::hand_over(TaskPool* pool, const grpc::ByteBuffer& body) {
  ASSIGN_OR_RETURN(caller_, admit(served_.keys, *context_));
  RETURN_IF_ERROR(served_.engine->accepting());
  return pool->submit(caller_.client, static_cast<int64_t>(body.Length()),
                      [this, body] { start(body); });
}

void GenerateReactor::start(grpc::ByteBuffer body) {
  if (context_->IsCancelled()) return Finish(grpc::Status::CANCELLED);
  const absl::StatusOr<std::shared_ptr<Stream>> stream = submit(&body);
  if (!stream.ok()) return Finish(to_grpc(stream.status()));
  bool cancelled = false;
  {
    MutexLock lock(&mutex_);
    stream_ = *stream;
    cancelled = cancelled_;
  }
  if (cancelled) served_.engine->cancel(*stream);  // OnCancel came before there was a stream.
  (*stream)->set_listener([this] { pump(); });
}

absl::StatusOr<std::shared_ptr<Stream>> GenerateReactor::submit(grpc::ByteBuffer* body) {
  v1::GenerateRequest message;
  RETURN_IF_ERROR(parse(body, &message));
  ASSIGN_OR_RETURN(Request request, to_request(message, *served_.model));
  request_id_ = request.id;
  request.client = caller_.client;
  request.endpoint = "/lockstep.v1.Generation/Generate";
  request.traceparent = traceparent_in(*context_);
  request.deadline_ms = steady_ms(context_->deadline());
  return served_.engine->submit(std::move(request));
}

void GenerateReactor::pump() {
  MutexLock lock(&mutex_);
  if (finished_) return;
  if (!writing_) return write_next();
  // The stream was closed because too much of it is unread: this write will not end by itself.
  const absl::Status status = stream_->status();
  if (status.code() == absl::StatusCode::kResourceExhausted) {
    grpc_call_cancel_with_status(context_->c_call(), GRPC_STATUS_RESOURCE_EXHAUSTED,
                                 message_of(status).c_str(), nullptr);
  }
}

void GenerateReactor::write_next() {
  bool over = false;
  if (pending_.empty()) {
    std::vector<StreamEvent> events;
    over = stream_->read(offset_, &events);
    offset_ += events.size();
    pending_.insert(pending_.end(), std::make_move_iterator(events.begin()),
                    std::make_move_iterator(events.end()));
  }
  if (!pending_.empty()) {
    response_ = serialize(to_response(pending_.front()));
    pending_.pop_front();
    writing_ = true;
    StartWrite(&response_);
  } else if (over) {
    finished_ = true;
    Finish(to_grpc(stream_->status()));
  }
}

v1::GenerateResponse GenerateReactor::to_response(const StreamEvent& event) const {
  v1::GenerateResponse response;
  response.set_request_id(request_id_);
  response.set_index(event.index);
  response.set_text(event.text);
  response.mutable_token_ids()->Add(event.token_ids.begin(), event.token_ids.end());
  const Tokenizer* tokenizer = served_.model->tokenizer();
  for (const std::vector<Logprob>& token : event.logprobs) {
    fill(token, tokenizer, response.add_logprobs());
  }
  for (const std::vector<Logprob>& token : event.prompt_logprobs) {
    fill(token, tokenizer, response.add_prompt_logprobs());
  }
  response.set_seed(event.seed);
  response.set_finish_reason(to_proto(event.finish_reason));
  if (event.finish_reason != FinishReason::kNone) {
    response.mutable_usage()->set_prompt_tokens(event.prompt_tokens);
    response.mutable_usage()->set_completion_tokens(event.completion_tokens);
    response.mutable_usage()->set_cached_tokens(event.cached_tokens);
  }
  return response;
}

void GenerateReactor::OnWriteDone(bool ok) {
  {
    MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) pending_.clear();  // The caller is gone; OnCancel ends the request.
  }
  pump();
}

void GenerateReactor::OnCancel() {
  std::shared_ptr<Stream> stream;
  {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    stream = stream_;
  }
  if (stream != nullptr) served_.engine->cancel(stream);
}

void GenerateReactor::OnDone() {
  std::shared_ptr<Stream> stream;
  {
    MutexLock lock(&mutex_);
    stream = stream_;
  }
  if (stream != nullptr) stream->set_listener(nullptr);  // See the class comment.
  delete this;
}

}  // namespace lockstep
