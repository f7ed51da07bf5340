// SPDX-License-Identifier: Apache-2.0
// A log of events that is kept complete: several readers can follow it, each from any offset.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/threads/mutex.h"
#include "coordinator/streams/stream_reader.h"

namespace lockstep {

// The max number of readers. A reader costs the notifier's thread one call per event.
inline constexpr size_t kMaxLogReaders = 8;
// A read() returns no further events once it has this many bytes.
inline constexpr int64_t kReaderPieceBytes = 64 << 10;

// Thread-safe. One thread appends.
class EventLog : public std::enable_shared_from_this<EventLog> {
 public:
  void append(StreamEvent event) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the log: nothing is appended afterwards.
  void close(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Frees the events of a closed log. Readers that have not reached the end get kOutOfRange.
  void drop() ABSL_LOCKS_EXCLUDED(mutex_);

  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_);

  // A reader that begins at `from`. kOutOfRange: the log was dropped, or it has ended and `from` is
  // above size() + 1: the end itself counts as an event, with offset size(). kResourceExhausted:
  // the log has kMaxLogReaders readers.
  absl::StatusOr<std::unique_ptr<StreamReader>> open(size_t from) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Reader;
  // A reader's listener. While it is called, it may outlive the reader.
  struct Listener {
    void call() ABSL_LOCKS_EXCLUDED(mutex);
    Mutex mutex;
    std::function<void()> function ABSL_GUARDED_BY(mutex);
  };

  void notify() ABSL_LOCKS_EXCLUDED(mutex_);
  // See StreamReader::read(). `status` is set if it returns true.
  bool read(size_t offset, std::vector<StreamEvent>* events, absl::Status* status) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  void remove(const Listener* listener) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable Mutex mutex_;
  std::deque<StreamEvent> events_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool dropped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Listener>> listeners_ ABSL_GUARDED_BY(mutex_);  // One per reader.
};

// The error for a log that was freed.
absl::Status event_log_is_gone();

}  // namespace lockstep
