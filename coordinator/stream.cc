// SPDX-License-Identifier: Apache-2.0
// The log of a request's events. The listener has a lock of its own, so that it may read.
#include "coordinator/stream.h"

#include <utility>

#include "base/check.h"

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

void Stream::append(StreamEvent event) {
  {
    MutexLock lock(&mutex_);
    LOCKSTEP_CHECK(!closed_);
    events_.push_back(std::move(event));
    changed_.notify_all();
  }
  notify();
}

void Stream::close(absl::Status status) {
  {
    MutexLock lock(&mutex_);
    LOCKSTEP_CHECK(!closed_);
    closed_ = true;
    status_ = std::move(status);
    changed_.notify_all();
  }
  notify();
}

void Stream::notify() {
  MutexLock lock(&listener_mutex_);
  if (listener_) listener_();
}

bool Stream::read(size_t offset, std::vector<StreamEvent>* events) const {
  events->clear();
  MutexLock lock(&mutex_);
  if (offset < events_.size()) {
    events->assign(events_.begin() + static_cast<std::ptrdiff_t>(offset), events_.end());
  }
  return closed_;
}

void Stream::wait(size_t offset) const {
  MutexLock lock(&mutex_);
  while (!closed_ && events_.size() <= offset) changed_.wait(&mutex_);
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
