// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/grpc/stream_reactor.h"

#include <grpc/grpc.h>

#include <iterator>
#include <optional>
#include <utility>

#include "base/status.h"
#include "coordinator/text/detokenizer/token_texts.h"

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

// `texts`: null without a tokenizer. A call that resumes has not seen the earlier tokens, so each
// token is shown as it appears within any text.
void fill(const Logprob& logprob, const TokenTexts* texts, v1::TokenLogprob* message) {
  message->set_id(logprob.id);
  message->set_logprob(logprob.logprob);
  if (texts == nullptr) return;
  TokenText token = texts->instead(logprob.id);
  message->set_text(std::move(token.text));
  message->set_bytes(std::move(token.bytes));
}

void fill(const std::vector<Logprob>& token, const TokenTexts* texts, v1::TokenLogprobs* message) {
  for (size_t i = 0; i < token.size(); ++i) {
    fill(token[i], texts, i == 0 ? message->mutable_chosen() : message->add_top());
  }
}

}  // namespace

void StreamReactor::follow(std::string request_id, const std::shared_ptr<StreamReader>& reader,
                           size_t from) {
  request_id_ = std::move(request_id);
  bool cancelled = false;
  {
    MutexLock lock(&mutex_);
    reader_ = reader;
    offset_ = from;
    cancelled = cancelled_;
  }
  if (cancelled) reader->abandon();  // OnCancel came before there was a reader.
  reader->set_listener([this] { pump(); });
}

void StreamReactor::pump() {
  MutexLock lock(&mutex_);
  if (finished_) return;
  if (!writing_) return write_next();
  // The stream was closed because too much of it is unread: this write will not end by itself.
  const absl::Status status = reader_->status();
  if (status.code() == absl::StatusCode::kResourceExhausted) {
    grpc_call_cancel_with_status(context_->c_call(), GRPC_STATUS_RESOURCE_EXHAUSTED,
                                 message_of(status).c_str(), nullptr);
  }
}

void StreamReactor::write_next() {
  bool over = false;
  if (pending_.empty()) {
    std::vector<StreamEvent> events;
    over = reader_->read(offset_, &events);
    offset_ += events.size();
    pending_.insert(pending_.end(), std::make_move_iterator(events.begin()),
                    std::make_move_iterator(events.end()));
  }
  if (!pending_.empty()) {
    response_ = serialize(to_response(pending_.front(), offset_ - pending_.size()));
    pending_.pop_front();
    writing_ = true;
    StartWrite(&response_);
  } else if (over) {
    finished_ = true;
    caller_.end_permit();
    Finish(to_grpc(reader_->status()));
  }
}

v1::GenerateResponse StreamReactor::to_response(const StreamEvent& event, size_t offset) const {
  v1::GenerateResponse response;
  response.set_request_id(request_id_);
  response.set_offset(offset);
  response.set_index(event.index);
  response.set_text(event.text);
  response.mutable_token_ids()->Add(event.token_ids.begin(), event.token_ids.end());
  response.mutable_prompt_ids()->Add(event.prompt_ids.begin(), event.prompt_ids.end());
  if (!event.logprobs.empty() || !event.prompt_logprobs.empty()) add_logprobs(event, &response);
  response.set_seed(event.seed);
  response.set_finish_reason(to_proto(event.finish_reason));
  if (event.finish_reason != FinishReason::kNone) {
    response.mutable_usage()->set_prompt_tokens(event.prompt_tokens);
    response.mutable_usage()->set_completion_tokens(event.completion_tokens);
    response.mutable_usage()->set_cached_tokens(event.cached_tokens);
  }
  return response;
}

void StreamReactor::add_logprobs(const StreamEvent& event, v1::GenerateResponse* response) const {
  std::optional<TokenTexts> texts;
  const Tokenizer* tokenizer = served_.model->tokenizer();
  if (tokenizer != nullptr) texts.emplace(tokenizer, /*continues=*/true);
  const TokenTexts* within = texts.has_value() ? &*texts : nullptr;
  for (const std::vector<Logprob>& token : event.logprobs) {
    fill(token, within, response->add_logprobs());
  }
  for (const std::vector<Logprob>& token : event.prompt_logprobs) {
    fill(token, within, response->add_prompt_logprobs());
  }
}

void StreamReactor::OnWriteDone(bool ok) {
  {
    MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) pending_.clear();  // The caller is gone; OnCancel() ends the rest.
  }
  pump();
}

void StreamReactor::OnCancel() {
  std::shared_ptr<StreamReader> reader;
  {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    reader = reader_;
  }
  if (reader != nullptr) reader->abandon();
}

void StreamReactor::OnDone() {
  std::shared_ptr<StreamReader> reader;
  {
    MutexLock lock(&mutex_);
    reader = reader_;
  }
  if (reader != nullptr) reader->set_listener(nullptr);  // See the class comment.
  delete this;
}

}  // namespace lockstep
