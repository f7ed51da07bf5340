// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/generate_reactor.h"

#include "base/status.h"
#include "coordinator/api/generate_request.h"

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

void fill(const Logprob& logprob, const Tokenizer* tokenizer, v1::TokenLogprob* message) {
  message->set_id(logprob.id);
  message->set_logprob(logprob.logprob);
  if (tokenizer != nullptr) {
    const int32_t ids[] = {logprob.id};
    message->set_text(tokenizer->decode(ids, /*skip_special=*/false));
  }
}

}  // namespace

grpc::Status to_grpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), message_of(status)};
}

GenerateReactor::GenerateReactor(InferenceService* service, const v1::GenerateRequest& message)
    : service_(service) {
  absl::StatusOr<Request> request = to_request(message, service->model());
  if (!request.ok()) {
    Finish(to_grpc(request.status()));
    return;
  }
  request_id_ = request->id;
  absl::StatusOr<std::shared_ptr<Stream>> stream = service->engine().submit(*std::move(request));
  if (!stream.ok()) {
    Finish(to_grpc(stream.status()));
    return;
  }
  stream_ = *std::move(stream);
  stream_->set_listener([this] { pump(); });
}

void GenerateReactor::pump() {
  absl::MutexLock lock(&mutex_);
  if (writing_ || finished_) return;
  bool over = false;
  if (pending_.empty()) {
    std::vector<StreamEvent> events;
    over = stream_->read(offset_, &events);
    offset_ += events.size();
    pending_.insert(pending_.end(), std::make_move_iterator(events.begin()),
                    std::make_move_iterator(events.end()));
  }
  if (!pending_.empty()) {
    response_ = to_response(pending_.front());
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
  const Tokenizer* tokenizer = service_->model().tokenizer();
  for (const std::vector<Logprob>& token : event.logprobs) {
    v1::TokenLogprobs* message = response.add_logprobs();
    for (size_t i = 0; i < token.size(); ++i) {
      fill(token[i], tokenizer, i == 0 ? message->mutable_chosen() : message->add_top());
    }
  }
  response.set_seed(event.seed);
  response.set_finish_reason(to_proto(event.finish_reason));
  if (event.finish_reason != FinishReason::kNone) {
    response.mutable_usage()->set_prompt_tokens(event.prompt_tokens);
    response.mutable_usage()->set_completion_tokens(event.completion_tokens);
  }
  return response;
}

void GenerateReactor::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) pending_.clear();  // The caller is gone; OnCancel ends the request.
  }
  pump();
}

void GenerateReactor::OnCancel() {
  if (stream_ != nullptr) service_->engine().cancel(stream_);
}

void GenerateReactor::OnDone() {
  if (stream_ != nullptr) stream_->set_listener(nullptr);
  delete this;
}

}  // namespace lockstep
