// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/text/conversation.h"

#include <algorithm>
#include <chrono>

#include "base/status.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/output/format_choice.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

Conversation::Conversation(const Model* model, Engine* engine, v1::GenerateRequest request,
                           const std::string& system)
    : model_(model), engine_(engine), request_(std::move(request)), system_(system) {
  const auto chat_template = model->chat_template();
  if (chat_template.ok()) thoughts_ = choose_formats("none", "auto", *chat_template)->thoughts;
  if (!request_.has_max_tokens() && !model->generation_config().max_new_tokens.has_value()) {
    request_.set_max_tokens(static_cast<int32_t>(std::min<int64_t>(model->max_context(), 1 << 30)));
  }
  reset();
}

void Conversation::reset() {
  request_.mutable_chat()->clear_messages();
  if (!system_.empty()) add("system", system_);
}

void Conversation::add(const std::string& role, const std::string& content) {
  v1::ChatMessage* message = request_.mutable_chat()->add_messages();
  message->set_role(role);
  message->set_content(content);
}

absl::StatusOr<AnswerStats> Conversation::say(const std::string& text, const Show& show) {
  add("user", text);
  absl::StatusOr<AnswerStats> stats = answer(show);
  if (!stats.ok()) request_.mutable_chat()->mutable_messages()->RemoveLast();
  return stats;
}

absl::StatusOr<AnswerStats> Conversation::regenerate(const Show& show) {
  auto* messages = request_.mutable_chat()->mutable_messages();
  if (messages->empty() || messages->rbegin()->role() != "assistant") {
    return invalid_argument("there is no answer to regenerate");
  }
  const v1::ChatMessage last = *messages->rbegin();
  messages->RemoveLast();
  absl::StatusOr<AnswerStats> stats = answer(show);
  if (!stats.ok()) *messages->Add() = last;
  return stats;
}

void Conversation::stop() {
  MutexLock lock(&mutex_);
  if (stream_ == nullptr) return;
  stopped_ = true;
  engine_->cancel(stream_);
}

absl::StatusOr<AnswerStats> Conversation::answer(const Show& show) {
  ASSIGN_OR_RETURN(EngineRequest request, to_request(request_, *model_));
  if (thoughts_ != nullptr) {
    const Tokenizer& tokenizer = *model_->tokenizer();
    request.shown_special_ids =
        tag_ids(thought_tags(*thoughts_), special_ids(tokenizer), tokenizer);
  }
  if (request_.has_seed()) request_.set_seed(request_.seed() + 1);
  ASSIGN_OR_RETURN(const std::shared_ptr<Stream> stream, engine_->submit(request));
  {
    MutexLock lock(&mutex_);
    stopped_ = false;
    stream_ = stream;
  }
  absl::StatusOr<AnswerStats> stats = follow(request, stream, show);
  MutexLock lock(&mutex_);
  stream_ = nullptr;
  if (stats.ok()) stats->stopped = stopped_;
  return stats;
}

absl::StatusOr<AnswerStats> Conversation::follow(const EngineRequest& request,
                                                 const std::shared_ptr<Stream>& stream,
                                                 const Show& show) {
  const Clock::time_point begin = Clock::now();
  const ThoughtPlace place =
      thoughts_ == nullptr ? ThoughtPlace::kBefore
                           : thought_place(request.prompt_ids, *thoughts_, *model_->tokenizer());
  OutputParser parser({.thoughts = thoughts_, .place = place});
  std::string thought;
  std::string content;
  const auto print = [&](const OutputDelta& delta) {
    thought += delta.thought;
    content += delta.content;
    if (!delta.thought.empty()) show(delta.thought, /*is_thought=*/true);
    if (!delta.content.empty()) show(delta.content, /*is_thought=*/false);
  };
  AnswerStats stats = {.prompt_tokens = static_cast<int64_t>(request.prompt_ids.size())};
  std::vector<StreamEvent> events;
  size_t offset = 0;
  for (bool over = false; !over;) {
    stream->wait(offset);
    over = stream->read(offset, &events);
    offset += events.size();
    for (const StreamEvent& event : events) {
      if (stats.tokens == 0) stats.first_seconds = seconds_since(begin);
      stats.tokens += static_cast<int64_t>(event.token_ids.size());
      print(parser.push(event.text));
    }
  }
  print(parser.finish());
  stats.seconds = seconds_since(begin);
  RETURN_IF_ERROR(stream->status());
  add("assistant", content);
  if (!thought.empty()) {
    request_.mutable_chat()->mutable_messages()->rbegin()->set_reasoning_content(thought);
  }
  return stats;
}

}  // namespace lockstep
