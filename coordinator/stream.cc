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
    absl::MutexLock lock(&mutex_);
    LOCKSTEP_CHECK(!closed_);
    events_.push_back(std::move(event));
  }
  notify();
}

void Stream::close(absl::Status status) {
  {
    absl::MutexLock lock(&mutex_);
    LOCKSTEP_CHECK(!closed_);
    closed_ = true;
    status_ = std::move(status);
  }
  notify();
}

void Stream::notify() {
  absl::MutexLock lock(&listener_mutex_);
  if (listener_) listener_();
}

bool Stream::read(size_t offset, std::vector<StreamEvent>* events) const {
  events->clear();
  absl::MutexLock lock(&mutex_);
  if (offset < events_.size()) {
    events->assign(events_.begin() + static_cast<std::ptrdiff_t>(offset), events_.end());
  }
  return closed_;
}

void Stream::wait(size_t offset) const {
  const auto arrived = [this, offset]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return closed_ || events_.size() > offset;
  };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&arrived));
}

absl::Status Stream::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

void Stream::set_listener(std::function<void()> listener) {
  absl::MutexLock lock(&listener_mutex_);
  listener_ = std::move(listener);
  if (listener_) listener_();
}

}  // namespace lockstep
