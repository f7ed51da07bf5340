// SPDX-License-Identifier: Apache-2.0
// Requests are checked and prepared on the caller's thread, without the lock.
#include "coordinator/engine/inbox.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/status.h"
#include "base/system/clock.h"
#include "coordinator/admission/admission.h"

namespace lockstep {

// ---- Other threads ----

absl::Status Inbox::check_open() const {
  if (messages_.stopping) return unavailable("the server is stopping");
  if (drain_ms_.has_value()) return unavailable("the server is draining");
  if (ended_) return unavailable("no group of workers: {}", message_of(why_ended_));
  if (stats_.group.ranks == 0) {
    return unavailable("no complete group of workers yet; try again soon");
  }
  return absl::OkStatus();
}

QueueLoad load_of(const PreparedRequest& request) {
  const int64_t prompt = static_cast<int64_t>(request.request().prompt_ids.size());
  return {.requests = 1,
          .choices = request.request().n,
          .prompt_tokens = prompt,
          .bytes = request.bytes()};
}

absl::Status displaced() {
  return resource_exhausted(
      "the queue is full, and this client or its network has the largest part: its newest requests "
      "are removed; try again later");
}

absl::Status Inbox::accepting() const {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(check_open());
  if (queue_.all().requests < options_.max_waiting.requests) return absl::OkStatus();
  return resource_exhausted("the queue is full: {} requests wait; try again later",
                            queue_.all().requests);
}

absl::Status Inbox::accepting(const std::string& client) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(check_open());
  return queue_.check(client);
}

// Counts the stream until its last holder releases it.
std::shared_ptr<Stream> Inbox::make_stream() {
  {
    MutexLock lock(&mutex_);
    ++streams_;
  }
  const auto release = [inbox = weak_from_this()](Stream* stream) {
    delete stream;
    const std::shared_ptr<Inbox> alive = inbox.lock();
    if (alive == nullptr) return;
    MutexLock lock(&alive->mutex_);
    --alive->streams_;
    alive->changed_.notify_all();
  };
  return {new Stream(options_.max_unread_bytes, unread_limits_), release};
}

// Refuses a request that needs a larger group and has no deadline: such requests would wait for a
// group that may never form, and fill the queue.
absl::StatusOr<const GroupInfo*> Inbox::group_for(const EngineRequest& request,
                                                  const GroupInfo& serving,
                                                  const GroupInfo& largest) {
  const absl::Status status = check_request(request, serving);
  if (status.ok()) return &serving;
  if (!is_too_long(status) || largest.ranks <= serving.ranks) return status;
  if (!check_length(request, largest).ok()) return status;
  if (request.deadline_ms > 0) return &largest;
  return unavailable(
      "prompt: its {} tokens fit only the whole group of {} ranks, and a group of {} ranks serves "
      "now; try again later, or wait for the whole group by giving the request a deadline",
      request.prompt_ids.size(), largest.ranks, serving.ranks);
}

absl::StatusOr<std::shared_ptr<Stream>> Inbox::submit(EngineRequest request) {
  RETURN_IF_ERROR(accepting(request.client));
  GroupInfo serving, largest;
  {
    MutexLock lock(&mutex_);
    if (stats_.outage && request.deadline_ms == 0) return no_workers_for(options_.max_outage_ms);
    serving = stats_.group;
    largest = largest_;
  }
  ASSIGN_OR_RETURN(const GroupInfo* group, group_for(request, serving, largest));
  ASSIGN_OR_RETURN(const Prefix prefix, group->prefix.find(request.prompt_ids));
  std::shared_ptr<Stream> stream = make_stream();
  auto job = std::make_unique<Job>(std::move(request), group->vocab, prefix, stream);
  job->submitted_ns = steady_now_ns();
  job->context = group->servable_context();
  job->needs_larger = group == &largest;
  const QueueLoad load = load_of(job->prepared);
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(check_open());
  ASSIGN_OR_RETURN(std::vector<std::shared_ptr<Stream>> displaced,
                   queue_.join(job->request(), load, stream));
  std::ranges::move(displaced, std::back_inserter(messages_.displaced));
  messages_.submitted.push_back(std::move(job));
  untaken_choices_ += load.choices;
  changed_.notify_all();
  return stream;
}

void Inbox::cancel(std::shared_ptr<Stream> stream) {
  MutexLock lock(&mutex_);
  if (ended_) return;  // The stream is closed, or about to be.
  messages_.cancelled.push_back(std::move(stream));
  changed_.notify_all();
}

EngineStats Inbox::stats() const {
  MutexLock lock(&mutex_);
  EngineStats stats = stats_;
  stats.ready = group_ != nullptr && check_open().ok();
  stats.waiting += untaken_choices_;
  stats.refused = queue_.refused();
  return stats;
}

absl::Status Inbox::wait_ready() const {
  MutexLock lock(&mutex_);
  while (group_ == nullptr && !ended_ && !messages_.stopping && !drain_ms_.has_value()) {
    changed_.wait(&mutex_);
  }
  if (messages_.stopping) return absl::CancelledError("the server is stopping");
  if (drain_ms_.has_value()) return absl::CancelledError("the server is draining");
  return ended_ ? why_ended_ : absl::OkStatus();
}

void Inbox::drain(int64_t deadline_ms) {
  MutexLock lock(&mutex_);
  drain_ms_ = deadline_ms;
  messages_.drain_ms = deadline_ms;
  changed_.notify_all();
}

absl::Status Inbox::wait_end() const {
  MutexLock lock(&mutex_);
  for (;;) {
    if (messages_.stopping) return absl::OkStatus();
    if (ended_) return why_ended_;
    if (!drain_ms_.has_value()) {
      changed_.wait(&mutex_);
      continue;
    }
    if (streams_ == 0) return absl::OkStatus();
    if (!changed_.wait_until(&mutex_, steady_time(*drain_ms_))) return absl::OkStatus();
  }
}

std::shared_ptr<Group> Inbox::stop() {
  MutexLock lock(&mutex_);
  messages_.stopping = true;
  changed_.notify_all();
  return group_;
}

// ---- The engine's thread ----

void Inbox::open(std::shared_ptr<Group> group) {
  MutexLock lock(&mutex_);
  stats_.group = group->info();
  stats_.pages_free = stats_.group.pages;
  if (stats_.group.ranks >= largest_.ranks) largest_ = stats_.group;
  group_ = std::move(group);
  changed_.notify_all();
}

void Inbox::lost() {
  MutexLock lock(&mutex_);
  group_ = nullptr;
}

Messages Inbox::end(absl::Status why) {
  MutexLock lock(&mutex_);
  ended_ = true;
  why_ended_ = std::move(why);
  changed_.notify_all();
  group_ = nullptr;
  queue_.clear();
  untaken_choices_ = 0;
  const bool stopping = messages_.stopping;
  Messages rest = std::exchange(messages_, {});
  messages_.stopping = stopping;
  return rest;
}

void Inbox::formed(absl::StatusOr<std::unique_ptr<Group>> group) {
  MutexLock lock(&mutex_);
  messages_.formed = std::move(group);
  changed_.notify_all();
}

bool Inbox::has_input() const {
  return messages_.stopping || messages_.drain_ms.has_value() || !messages_.submitted.empty() ||
         !messages_.cancelled.empty() || !messages_.displaced.empty() ||
         messages_.formed.has_value();
}

Messages Inbox::take(std::optional<int64_t> until_ms) {
  MutexLock lock(&mutex_);
  while (!has_input() && until_ms != 0) {
    if (!until_ms.has_value()) {
      changed_.wait(&mutex_);
    } else if (!changed_.wait_until(&mutex_, steady_time(*until_ms))) {
      break;
    }
  }
  Messages taken;
  taken.stopping = messages_.stopping;
  if (taken.stopping) return taken;
  std::swap(taken, messages_);
  stats_.waiting += std::exchange(untaken_choices_, 0);
  return taken;
}

bool Inbox::wait_stopping(std::chrono::milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  MutexLock lock(&mutex_);
  while (!messages_.stopping && changed_.wait_until(&mutex_, deadline)) {
  }
  return messages_.stopping;
}

void Inbox::leave(const Stream* stream) {
  MutexLock lock(&mutex_);
  queue_.leave(stream);
}

void Inbox::publish(const EngineStats& stats) {
  MutexLock lock(&mutex_);
  GroupInfo group = std::move(stats_.group);
  stats_ = stats;
  stats_.group = std::move(group);
}

}  // namespace lockstep
