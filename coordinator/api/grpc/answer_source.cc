// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/grpc/answer_source.h"

#include <algorithm>
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

// `texts`: null without a tokenizer. A call that resumes has not seen the earlier tokens, so the
// text of each token does not depend on them.
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

AnswerSource::AnswerSource(const ServedModel& served, Caller caller, std::string request_id,
                           std::shared_ptr<StreamReader> reader, size_t from)
    : served_(served),
      caller_(std::move(caller)),
      request_id_(std::move(request_id)),
      reader_(std::move(reader)),
      offset_(from) {}

AnswerSource::~AnswerSource() {
  reader_->set_listener(nullptr);
  if (!is_over_) reader_->abandon();
}

http::BodySource::State AnswerSource::read(std::string* bytes) {
  if (pending_.empty() && !is_over_) {
    std::vector<StreamEvent> events;
    is_over_ = reader_->read(offset_, &events);
    offset_ += events.size();
    std::ranges::move(events, std::back_inserter(pending_));
  }
  while (!pending_.empty() && bytes->size() < http::kPieceBytes) {
    append_message(to_response(pending_.front(), offset_ - pending_.size()), bytes);
    pending_.pop_front();
  }
  if (!pending_.empty() || !is_over_) return State::kMore;
  caller_.end_permit();
  return State::kEnd;
}

bool AnswerSource::is_cut() {
  const bool is_cut = reader_->status().code() == absl::StatusCode::kResourceExhausted;
  if (is_cut) caller_.end_permit();
  return is_cut;
}

v1::GenerateResponse AnswerSource::to_response(const StreamEvent& event, size_t offset) const {
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

void AnswerSource::add_logprobs(const StreamEvent& event, v1::GenerateResponse* response) const {
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

void answer_with(const std::shared_ptr<http::Exchange>& exchange, const ServedModel& served,
                 const Caller& caller, const std::string& request_id,
                 const std::shared_ptr<StreamReader>& reader, size_t from) {
  reader->set_listener(exchange->waker());
  exchange->stream(answer_head(),
                   std::make_unique<AnswerSource>(served, caller, request_id, reader, from));
}

}  // namespace lockstep
