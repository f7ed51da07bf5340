// SPDX-License-Identifier: Apache-2.0
#include "coordinator/streams/notifier.h"

#include <utility>

#include "base/threads/thread_priority.h"

namespace lockstep {

Notifier::Notifier() : thread_([this] { run(); }) {}

Notifier::~Notifier() {
  notify();
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  thread_.join();
}

// Events of one request are adjacent, so a stream is compared only with the last one.
void Notifier::changed(const std::shared_ptr<Stream>& stream) {
  if (changed_.empty() || changed_.back() != stream) changed_.push_back(stream);
}

void Notifier::notify() {
  if (changed_.empty()) return;
  MutexLock lock(&mutex_);
  pending_.insert(pending_.end(), changed_.begin(), changed_.end());
  changed_.clear();
  wake_.notify_all();
}

void Notifier::run() {
  lower_thread_priority();  // If CPUs are short, the next step goes first.
  std::vector<std::shared_ptr<Stream>> streams;
  for (;;) {
    {
      MutexLock lock(&mutex_);
      while (pending_.empty() && !stopping_) wake_.wait(&mutex_);
      if (pending_.empty()) return;
      streams.swap(pending_);
    }
    for (const std::shared_ptr<Stream>& stream : streams) stream->notify();
    streams.clear();
  }
}

}  // namespace lockstep
