// SPDX-License-Identifier: Apache-2.0
// Sources of streamed answers that a test feeds and counts.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/system/clock.h"
#include "base/threads/mutex.h"
#include "coordinator/http/event_stream.h"

namespace lockstep::http {

// The text that a test adds to a stream.
class Feed {
 public:
  void say(const std::string& text, bool end = false) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    text_ += text;
    end_ |= end;
  }
  BodySource::State take(std::string* bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    *bytes += std::exchange(text_, "");
    return end_ ? BodySource::State::kEnd : BodySource::State::kMore;
  }

 private:
  Mutex mutex_;
  std::string text_ ABSL_GUARDED_BY(mutex_);
  bool end_ ABSL_GUARDED_BY(mutex_) = false;
};

struct Counts {
  std::atomic<int> requests{0};
  std::atomic<int> gone{0};
  std::atomic<int> sources{0};          // Sources that are alive.
  std::atomic<int64_t> bytes_given{0};  // Bytes from endless sources.
  std::atomic<int64_t> slow_pieces{0};  // Pieces from slow sources.
};

class CountedSource : public EventSource {
 public:
  explicit CountedSource(Counts* counts) : counts_(counts) { ++counts_->sources; }
  ~CountedSource() override { --counts_->sources; }

 protected:
  Counts* const counts_;
};

class FedSource final : public CountedSource {
 public:
  FedSource(Counts* counts, std::shared_ptr<Feed> feed)
      : CountedSource(counts), feed_(std::move(feed)) {}
  State read(std::string* bytes) override { return feed_->take(bytes); }

 private:
  const std::shared_ptr<Feed> feed_;
};

class EndlessSource final : public CountedSource {
 public:
  using CountedSource::CountedSource;
  State read(std::string* bytes) override {
    bytes->append(kPieceBytes, 'x');
    counts_->bytes_given += kPieceBytes;
    return State::kMore;
  }
};

// Endless, with pieces of one byte that take 0.2 ms of processor time.
class SlowSource final : public CountedSource {
 public:
  using CountedSource::CountedSource;
  State read(std::string* bytes) override {
    for (const int64_t begin = thread_time_ns(); thread_time_ns() - begin < 200'000;) {
    }
    *bytes += 'x';
    ++counts_->slow_pieces;
    return State::kMore;
  }
};

}  // namespace lockstep::http
