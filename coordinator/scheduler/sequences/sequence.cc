// SPDX-License-Identifier: Apache-2.0
// A drawn token is used in two parts: append() decides whether it is the last, and take_update()
// which text is now safe to show.
#include "coordinator/scheduler/sequences/sequence.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "coordinator/sampling/sampler.h"

namespace lockstep {

Sequence::Sequence(const PreparedRequest& request, int32_t index, int64_t context, Stream* stream,
                   const Tokenizer* tokenizer)
    : prepared_(request),
      request_(request.request()),
      index_(index),
      context_(context),
      stream_(stream),
      penalties_(&request.rules()),
      stop_matcher_(&request.stops()) {
  LOCKSTEP_CHECK(!request_.prompt_ids.empty());
  if (tokenizer != nullptr) {
    detokenizer_.emplace(tokenizer, /*continues=*/true, request_.shown_special_ids);
  }
}

int32_t Sequence::token(int64_t position) const {
  LOCKSTEP_CHECK(0 <= position && position < length());
  const int64_t prompt = prompt_tokens();
  return position < prompt ? request_.prompt_ids[static_cast<size_t>(position)]
                           : generated_[static_cast<size_t>(position - prompt)];
}

int64_t Sequence::extent() const {
  return std::min(prompt_tokens() + int64_t{request_.max_tokens}, context_);
}

void Sequence::start(int32_t slot, int64_t rope_length, std::vector<int32_t> cached,
                     int64_t computed) {
  LOCKSTEP_CHECK(waits());
  LOCKSTEP_CHECK(computed_ == 0 && pages_.empty() && computed < length());
  if (state_ == State::kWaiting) cached_tokens_ = computed;
  state_ = State::kRunning;
  slot_ = slot;
  rope_length_ = rope_length;
  computed_ = computed;
  pages_in_tree_ = static_cast<int64_t>(cached.size());
  pages_ = std::move(cached);
  pages_sent_.reset();
}

void Sequence::advance(int64_t rows) {
  LOCKSTEP_CHECK(state_ == State::kRunning);
  computed_ += rows;
  reached_ = std::max(reached_, computed_);
  LOCKSTEP_CHECK(computed_ <= length());
}

std::vector<int32_t> Sequence::drop_pages() {
  LOCKSTEP_CHECK(state_ == State::kRunning);
  computed_ = 0;
  pages_in_tree_ = 0;
  return std::exchange(pages_, {});
}

void Sequence::preempt(bool for_others) {
  preemptions_ += for_others ? 1 : 0;
  LOCKSTEP_CHECK(state_ == State::kRunning && pages_.empty());
  state_ = State::kPreempted;
  planned_ = 0;
}

void Sequence::release() {
  LOCKSTEP_CHECK(state_ != State::kFinished && pages_.empty());
  state_ = State::kFinished;
}

int64_t Sequence::first_wanted_row() const {
  if (!scores() || scored_ == prompt_tokens()) return length() - 1;
  return std::max<int64_t>(scored_ - 1, 0);  // No row scores the first token.
}

int64_t Sequence::wanted_rows(int64_t position, int64_t rows) const {
  return std::max<int64_t>(position + rows - std::max(position, first_wanted_row()), 0);
}

int64_t Sequence::scored_by(int64_t computed) const {
  if (!scores()) return scored_;
  return std::max(scored_, std::min(computed + 1, prompt_tokens()));
}

cluster::Output Sequence::plan_at(int64_t position) const {
  if (position == length() - 1) return plan();
  return plan_score(token(position + 1), request_.prompt_logprobs);
}

cluster::Output Sequence::plan() const {
  if (!draws()) {
    cluster::Output output;
    output.set_want_logits(request_.prompt_logits && index_ == 0);
    return output;
  }
  cluster::Output output = plan_output(request_.sampling, {.seed = seed(),
                                                           .position = length(),
                                                           .logprobs = request_.logprobs,
                                                           .logprob_ids = request_.logprob_ids});
  penalties_.fill(/*forbid_stops=*/generated_tokens() < request_.min_tokens, &output);
  output.set_want_logits(request_.prompt_logits && index_ == 0 && generated_.empty());
  return output;
}

std::string Sequence::show(std::string_view text) {
  // The first min_tokens tokens do not end the sequence, neither by id nor by text.
  if (generated_tokens() <= request_.min_tokens) return std::string(text);
  return stop_matcher_.push(text);
}

bool Sequence::append(int32_t id) {
  LOCKSTEP_CHECK(state_ == State::kRunning && finish_reason_ == FinishReason::kNone);
  LOCKSTEP_CHECK(remaining() == 0 && end_ == FinishReason::kNone);
  generated_.push_back(id);
  penalties_.append(id);
  if (generated_tokens() > request_.min_tokens && prepared_.is_stop_id(id)) {
    end_ = FinishReason::kStop;
  } else if (generated_tokens() >= request_.max_tokens || length() >= context_) {
    end_ = FinishReason::kLength;
  }
  return end_ != FinishReason::kNone;
}

SequenceUpdate Sequence::take_update() {
  LOCKSTEP_CHECK(!generated_.empty() && finish_reason_ == FinishReason::kNone);
  SequenceUpdate update;
  if (end_ == FinishReason::kStop) {
    update = finish(end_);  // The end token's own text is not shown.
    update.stop.id = generated_.back();
    return update;
  }
  if (detokenizer_.has_value()) update.text = show(detokenizer_->push(generated_.back()));
  if (stop_matcher_.stopped()) {
    finish_reason_ = update.finish_reason = FinishReason::kStop;
    update.stop.text = stop_matcher_.found();
  } else if (end_ == FinishReason::kLength) {
    SequenceUpdate rest = finish(end_);
    rest.text.insert(0, update.text);
    return rest;
  }
  return update;
}

SequenceUpdate Sequence::finish(FinishReason reason) {
  LOCKSTEP_CHECK(finish_reason_ == FinishReason::kNone);
  SequenceUpdate update = {.finish_reason = reason};
  if (detokenizer_.has_value()) {
    update.text = show(detokenizer_->finish());
    update.text += stop_matcher_.finish();
    // The last bytes may have completed a stop string.
    if (stop_matcher_.stopped() && reason == FinishReason::kLength) {
      update.finish_reason = FinishReason::kStop;
      update.stop.text = stop_matcher_.found();
    }
  }
  finish_reason_ = update.finish_reason;
  return update;
}

}  // namespace lockstep
