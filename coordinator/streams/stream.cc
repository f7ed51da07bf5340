// SPDX-License-Identifier: Apache-2.0
// The log of a request's events. The listener has a lock of its own, so that it can read the log
// while it is called.
#include "coordinator/streams/stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

// Bytes of a choice. Clients that read tokens as they arrive leave fewer unread.
constexpr int64_t kLittleUnread = 16 << 10;

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "";
}

std::vector<int32_t> ids_of(const std::vector<Logprob>& token) {
  std::vector<int32_t> ids;
  ids.reserve(token.size());
  for (const Logprob& one : token) ids.push_back(one.id);
  return ids;
}

int64_t bytes_of(const StreamEvent& event) {
  size_t bytes = sizeof(event) + event.text.size();
  bytes += (event.token_ids.size() + event.prompt_ids.size()) * sizeof(int32_t);
  bytes += event.prompt_logits.size() * sizeof(float);
  for (const auto* tokens : {&event.logprobs, &event.prompt_logprobs}) {
    for (const std::vector<Logprob>& token : *tokens) {
      bytes += sizeof(std::vector<Logprob>) + token.size() * sizeof(Logprob);
    }
  }
  return static_cast<int64_t>(bytes);
}

bool UnreadLimit::take(int64_t bytes) {
  if (left_.fetch_sub(bytes) >= bytes) return true;
  left_ += bytes;
  return false;
}

Stream::~Stream() {
  MutexLock lock(&mutex_);
  for (const StreamEvent& event : events_) give_back(event);
}

absl::Status Stream::take_room(const StreamEvent& event) {
  const int64_t bytes = bytes_of(event);
  if (shares(event)) {
    if (unread_limits_->scores.take(bytes)) return absl::OkStatus();
    return resource_exhausted(
        "the readers are too slow: there is no room for {} more bytes of log-probabilities of "
        "prompts; read them as they arrive, or try again later",
        bytes);
  }
  int64_t& unread = unread_bytes_[event.index];
  if (unread > 0 && unread + bytes > max_unread_bytes_) {
    return resource_exhausted(
        "the reader is too slow: unread bytes of a choice must be at most {}, found {} of choice "
        "{} and {} more; read tokens as they arrive",
        max_unread_bytes_, unread, event.index, bytes);
  }
  if (unread_limits_ != nullptr && !unread_limits_->others.take(bytes)) {
    if (unread > kLittleUnread) {
      return resource_exhausted(
          "the readers are too slow: unread bytes of all answers must be at most {} together; read "
          "tokens as they arrive",
          kMaxAllUnreadBytes);
    }
    unread_limits_->others.take_anyway(bytes);
  }
  unread += bytes;
  return absl::OkStatus();
}

void Stream::give_back(const StreamEvent& event) {
  if (shares(event)) {
    unread_limits_->scores.give_back(bytes_of(event));
  } else {
    unread_bytes_[event.index] -= bytes_of(event);
    if (unread_limits_ != nullptr) unread_limits_->others.give_back(bytes_of(event));
  }
}

absl::Status Stream::append(StreamEvent event) {
  MutexLock lock(&mutex_);
  LOCKSTEP_CHECK(!closed_);
  if (!overflow_.ok()) return overflow_;
  overflow_ = take_room(event);
  RETURN_IF_ERROR(overflow_);
  events_.push_back(std::move(event));
  changed_.notify_all();
  return absl::OkStatus();
}

void Stream::close(absl::Status status) {
  MutexLock lock(&mutex_);
  LOCKSTEP_CHECK(!closed_);
  closed_ = true;
  status_ = overflow_.ok() ? std::move(status) : overflow_;
  changed_.notify_all();
}

void Stream::notify() {
  MutexLock lock(&listener_mutex_);
  if (listener_) listener_();
}

bool Stream::read(size_t offset, std::vector<StreamEvent>* events) {
  events->clear();
  MutexLock lock(&mutex_);
  for (; begin_ < offset && !events_.empty(); ++begin_) {
    give_back(events_.front());
    events_.pop_front();
  }
  const size_t skipped = std::min(std::max(offset, begin_) - begin_, events_.size());
  events->assign(events_.begin() + static_cast<std::ptrdiff_t>(skipped), events_.end());
  return closed_;
}

void Stream::wait(size_t offset) const {
  MutexLock lock(&mutex_);
  while (!closed_ && end() <= offset) changed_.wait(&mutex_);
}

absl::Status Stream::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

void Stream::set_listener(std::function<void()> listener) {
  MutexLock lock(&listener_mutex_);
  listener_ = std::move(listener);
  if (listener_) listener_();
}

}  // namespace lockstep
