// SPDX-License-Identifier: Apache-2.0
// No lock of the log is held while a listener runs: a listener may destroy its own reader.
#include "coordinator/streams/event_log.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {

absl::Status event_log_is_gone() {
  return absl::OutOfRangeError("the stream ended a while ago and is no longer kept");
}

class EventLog::Reader final : public StreamReader {
 public:
  Reader(std::shared_ptr<EventLog> log, std::shared_ptr<Listener> listener)
      : log_(std::move(log)), listener_(std::move(listener)) {}
  ~Reader() override { log_->remove(listener_.get()); }

  bool read(size_t offset, std::vector<StreamEvent>* events) override {
    if (!gone_) return log_->read(offset, events, &status_);
    events->clear();
    status_ = absl::CancelledError("the client is gone");
    return true;
  }
  absl::Status status() const override { return status_; }
  void set_listener(std::function<void()> function) override {
    MutexLock lock(&listener_->mutex);
    listener_->function = std::move(function);
    if (listener_->function) listener_->function();
  }
  void abandon() override {
    gone_ = true;
    listener_->call();
  }

 private:
  const std::shared_ptr<EventLog> log_;
  const std::shared_ptr<Listener> listener_;
  std::atomic<bool> gone_{false};
  absl::Status status_;
};

void EventLog::Listener::call() {
  MutexLock lock(&mutex);
  if (function) function();
}

void EventLog::append(StreamEvent event) {
  {
    MutexLock lock(&mutex_);
    LOCKSTEP_CHECK(!closed_);
    events_.push_back(std::move(event));
  }
  notify();
}

void EventLog::close(absl::Status status) {
  {
    MutexLock lock(&mutex_);
    LOCKSTEP_CHECK(!closed_);
    closed_ = true;
    status_ = std::move(status);
  }
  notify();
}

void EventLog::drop() {
  std::deque<StreamEvent> events;  // Destroyed after the lock is released.
  {
    MutexLock lock(&mutex_);
    LOCKSTEP_CHECK(closed_);
    dropped_ = true;
    events.swap(events_);
  }
  notify();
}

size_t EventLog::size() const {
  MutexLock lock(&mutex_);
  return events_.size();
}

absl::StatusOr<std::unique_ptr<StreamReader>> EventLog::open(size_t from) {
  MutexLock lock(&mutex_);
  if (dropped_) return event_log_is_gone();
  if (closed_ && from > events_.size() + 1) {
    return absl::OutOfRangeError(
        fmt::format("from: must be at most {}, where the stream has ended, found {}",
                    events_.size() + 1, from));
  }
  if (listeners_.size() >= kMaxLogReaders) {
    return resource_exhausted("this stream already has {} readers, the limit", listeners_.size());
  }
  listeners_.push_back(std::make_shared<Listener>());
  return std::make_unique<Reader>(shared_from_this(), listeners_.back());
}

bool EventLog::read(size_t offset, std::vector<StreamEvent>* events, absl::Status* status) const {
  events->clear();
  MutexLock lock(&mutex_);
  if (dropped_) {
    *status = event_log_is_gone();
    return true;
  }
  int64_t bytes = 0;
  for (; offset < events_.size() && bytes < kReaderPieceBytes; ++offset) {
    events->push_back(events_[offset]);
    bytes += bytes_of(events_[offset]);
  }
  if (!closed_ || offset < events_.size()) return false;
  *status = status_;
  return true;
}

void EventLog::notify() {
  std::vector<std::shared_ptr<Listener>> listeners;
  {
    MutexLock lock(&mutex_);
    listeners = listeners_;
  }
  for (const std::shared_ptr<Listener>& listener : listeners) listener->call();
}

void EventLog::remove(const Listener* listener) {
  MutexLock lock(&mutex_);
  std::erase_if(listeners_, [=](const auto& one) { return one.get() == listener; });
}

}  // namespace lockstep
