// SPDX-License-Identifier: Apache-2.0
// The log of a request's events. The listener has a lock of its own, so that it may read.
#include "coordinator/stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {

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

int64_t bytes_of(const StreamEvent& event) {
  size_t bytes = sizeof(event) + event.text.size();
  bytes += event.token_ids.size() * sizeof(int32_t) + event.prompt_logits.size() * sizeof(float);
  for (const std::vector<Logprob>& token : event.logprobs) {
    bytes += sizeof(std::vector<Logprob>) + token.size() * sizeof(Logprob);
  }
  return static_cast<int64_t>(bytes);
}

absl::Status Stream::append(StreamEvent event) {
  {
    MutexLock lock(&mutex_);
    LOCKSTEP_CHECK(!closed_);
    if (!overflow_.ok()) return overflow_;
    int64_t& unread = unread_bytes_[event.index];
    const int64_t bytes = bytes_of(event);
    if (unread > 0 && unread + bytes > max_unread_bytes_) {
      overflow_ = resource_exhausted(
          "the reader is too slow: want at most {} unread bytes of a choice, found {} of choice {} "
          "and {} more; read as fast as tokens come",
          max_unread_bytes_, unread, event.index, bytes);
      return overflow_;
    }
    unread += bytes;
    events_.push_back(std::move(event));
    changed_.notify_all();
  }
  notify();
  return absl::OkStatus();
}

void Stream::close(absl::Status status) {
  {
    MutexLock lock(&mutex_);
    LOCKSTEP_CHECK(!closed_);
    closed_ = true;
    status_ = overflow_.ok() ? std::move(status) : overflow_;
    changed_.notify_all();
  }
  notify();
}

void Stream::notify() {
  MutexLock lock(&listener_mutex_);
  if (listener_) listener_();
}

bool Stream::read(size_t offset, std::vector<StreamEvent>* events) {
  events->clear();
  MutexLock lock(&mutex_);
  for (; begin_ < offset && !events_.empty(); ++begin_) {
    unread_bytes_[events_.front().index] -= bytes_of(events_.front());
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
