// SPDX-License-Identifier: Apache-2.0
// Admission before work: what can't be served is refused here, on the caller's thread.
#include "coordinator/inbox.h"

#include <cmath>
#include <utility>

#include "base/status.h"

namespace lockstep {
namespace {

absl::Status check_ids(const std::vector<int32_t>& ids, int64_t vocab) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (0 <= ids[i] && ids[i] < vocab) continue;
    return invalid_argument("prompt_ids[{}]: want a token id below {}, found {}", i, vocab, ids[i]);
  }
  return absl::OkStatus();
}

// What would make a Step a lie that ends the group for all.
absl::Status check_sampling(const SamplingParams& params, int64_t vocab) {
  const auto number = [](const char* name, float value, bool good) {
    return good && std::isfinite(value)
               ? absl::OkStatus()
               : invalid_argument("{}: found {}, which is no such parameter", name, value);
  };
  const float repetition = params.repetition_penalty;
  RETURN_IF_ERROR(number("temperature", params.temperature, params.temperature >= 0));
  RETURN_IF_ERROR(number("top_p", params.top_p, params.top_p >= 0));
  RETURN_IF_ERROR(number("min_p", params.min_p, params.min_p >= 0));
  RETURN_IF_ERROR(number("repetition_penalty", repetition, repetition > 0));
  RETURN_IF_ERROR(number("presence_penalty", params.presence_penalty, true));
  RETURN_IF_ERROR(number("frequency_penalty", params.frequency_penalty, true));
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || id >= vocab) {
      return invalid_argument("logit_bias: want a token id below {}, found {}", vocab, id);
    }
    RETURN_IF_ERROR(number("logit_bias", bias, true));
  }
  return absl::OkStatus();
}

absl::Status check_length(const Request& request, const GroupInfo& group) {
  const int64_t prompt = static_cast<int64_t>(request.prompt_ids.size());
  const int64_t first = request.max_tokens > 0 ? 1 : 0;
  if (prompt + first > group.max_context) {
    return invalid_argument(
        "prompt: want at most {} tokens, so that one more fits the context of {}, found {}; "
        "shorten it or raise --max-context",
        group.max_context - first, group.max_context, prompt);
  }
  const int64_t room = group.pages * group.page_tokens;
  if (prompt + first > room) {
    return invalid_argument(
        "prompt: want at most {} tokens, so that one more fits the {} KV pages of {}, found {}; "
        "shorten it or raise --kv-memory",
        room - first, group.pages, group.page_tokens, prompt);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Inbox::check(const Request& request) const {
  GroupInfo group;
  {
    MutexLock lock(&mutex_);
    if (group_ == nullptr) return no_group();
    group = stats_.group;
  }
  if (request.prompt_ids.empty())
    return invalid_argument("prompt: want at least one token, found none");
  if (request.n < 1) return invalid_argument("n: want at least 1, found {}", request.n);
  RETURN_IF_ERROR(check_ids(request.prompt_ids, group.vocab));
  RETURN_IF_ERROR(check_sampling(request.sampling, group.vocab));
  return check_length(request, group);
}

absl::Status Inbox::no_group() const {
  if (messages_.stopping) return unavailable("the server is stopping");
  if (ended_) return unavailable("no group of workers: {}", message_of(why_ended_));
  return unavailable("no complete group of workers stands at the moment; try again soon");
}

absl::StatusOr<std::shared_ptr<Stream>> Inbox::submit(Request request) {
  RETURN_IF_ERROR(check(request));
  const int32_t choices = request.n;
  Submission submission = {.request = std::make_shared<const Request>(std::move(request)),
                           .stream = std::make_shared<Stream>()};
  std::shared_ptr<Stream> stream = submission.stream;
  MutexLock lock(&mutex_);
  if (group_ == nullptr || messages_.stopping) return no_group();
  const int64_t queued = static_cast<int64_t>(messages_.submitted.size()) + unstarted_;
  if (queued >= options_.max_waiting) {
    return resource_exhausted(
        "the queue is full: want fewer than {} waiting requests, found {}; "
        "try again later",
        options_.max_waiting, queued);
  }
  messages_.submitted.push_back(std::move(submission));
  choices_submitted_ += choices;
  changed_.notify_all();
  return stream;
}

void Inbox::cancel(std::shared_ptr<Stream> stream) {
  MutexLock lock(&mutex_);
  if (group_ == nullptr) return;  // Its stream is closed, or about to be.
  messages_.cancelled.push_back(std::move(stream));
  changed_.notify_all();
}

EngineStats Inbox::stats() const {
  MutexLock lock(&mutex_);
  EngineStats stats = stats_;
  stats.ready = group_ != nullptr;
  stats.waiting += choices_submitted_;
  return stats;
}

absl::Status Inbox::wait_ready() const {
  MutexLock lock(&mutex_);
  while (group_ == nullptr && !ended_ && !messages_.stopping) changed_.wait(&mutex_);
  if (messages_.stopping) return absl::CancelledError("the server is stopping");
  return ended_ ? why_ended_ : absl::OkStatus();
}

std::shared_ptr<Group> Inbox::stop() {
  MutexLock lock(&mutex_);
  messages_.stopping = true;
  changed_.notify_all();
  return group_;
}

void Inbox::open(std::shared_ptr<Group> group) {
  MutexLock lock(&mutex_);
  stats_.group = group->info();
  stats_.pages_free = stats_.group.pages;
  group_ = std::move(group);
  changed_.notify_all();
}

Messages Inbox::close() {
  MutexLock lock(&mutex_);
  group_ = nullptr;
  unstarted_ = 0;
  choices_submitted_ = 0;
  const bool stopping = messages_.stopping;
  Messages rest = std::exchange(messages_, {});
  messages_.stopping = stopping;
  return rest;
}

void Inbox::end(absl::Status why) {
  MutexLock lock(&mutex_);
  ended_ = true;
  why_ended_ = std::move(why);
  changed_.notify_all();
}

bool Inbox::has_news() const {
  return messages_.stopping || !messages_.submitted.empty() || !messages_.cancelled.empty();
}

Messages Inbox::take(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  MutexLock lock(&mutex_);
  while (patience.count() > 0 && !has_news() && changed_.wait_until(&mutex_, deadline)) {
  }
  Messages taken;
  taken.stopping = messages_.stopping;
  if (taken.stopping) return taken;  // What else there is comes with close().
  std::swap(taken, messages_);
  unstarted_ += static_cast<int64_t>(taken.submitted.size());
  stats_.waiting += std::exchange(choices_submitted_, 0);
  return taken;
}

void Inbox::publish(const EngineStats& stats, int64_t unstarted) {
  MutexLock lock(&mutex_);
  const GroupInfo group = std::move(stats_.group);
  stats_ = stats;
  stats_.group = group;
  unstarted_ = unstarted;
}

}  // namespace lockstep
