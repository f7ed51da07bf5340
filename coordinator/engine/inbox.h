// SPDX-License-Identifier: Apache-2.0
// Where other threads and the engine's thread meet: requests and cancellations go in, a picture of
// the engine comes out. The only state that they share.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/threads/mutex.h"
#include "coordinator/admission/queue_shares.h"
#include "coordinator/engine/engine_core.h"

namespace lockstep {

// What the engine's thread takes at once. A cancellation comes with, or after, its submission.
struct Messages {
  std::vector<std::unique_ptr<Job>> submitted;
  std::vector<std::shared_ptr<Stream>> cancelled;
  // They made room in the queue for others: displaced() is their end, unless they have begun.
  std::vector<std::shared_ptr<Stream>> displaced;
  std::optional<int64_t> drain_ms;  // The deadline, once.
  // What became of Cluster::form(), once for each time.
  std::optional<absl::StatusOr<std::unique_ptr<Group>>> formed;
  bool stopping = false;
};

// The load that a request adds to the queue.
QueueLoad load_of(const PreparedRequest& request);

// kResourceExhausted, of a request whose place in the queue another client's took.
absl::Status displaced();

// Thread-safe. Streams that it made may outlive it.
class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  static std::shared_ptr<Inbox> create(const EngineOptions& options) {
    return std::shared_ptr<Inbox>(new Inbox(options));
  }

  // Other threads' side: as Engine's methods of these names.
  absl::Status accepting() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status accepting(const std::string& client) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::shared_ptr<Stream>> submit(Request request) ABSL_LOCKS_EXCLUDED(mutex_);
  void cancel(std::shared_ptr<Stream> stream) ABSL_LOCKS_EXCLUDED(mutex_);
  EngineStats stats() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status wait_ready() const ABSL_LOCKS_EXCLUDED(mutex_);
  void drain(int64_t deadline_ms) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status wait_end() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The engine is to end. Returns its group, if any: a step under way is to be aborted.
  std::shared_ptr<Group> stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // The engine's side. A group was formed: from the first one on requests are taken.
  void open(std::shared_ptr<Group> group) ABSL_LOCKS_EXCLUDED(mutex_);
  // It is over; requests wait for the next one.
  void lost() ABSL_LOCKS_EXCLUDED(mutex_);
  // No group will be formed any more, and why. What was not taken is returned.
  Messages end(absl::Status why) ABSL_LOCKS_EXCLUDED(mutex_);
  // For the thread that waits in Cluster::form().
  void formed(absl::StatusOr<std::unique_ptr<Group>> group) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes all messages. Waits for the first until the steady clock says `until_ms`; nothing: for
  // as long as it takes. Once the engine is to end, nothing else is taken: end() has the rest.
  Messages take(std::optional<int64_t> until_ms) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits this long, or until the engine is to end: then true.
  bool wait_stopping(std::chrono::milliseconds time) ABSL_LOCKS_EXCLUDED(mutex_);
  // A request has begun or ended: it is in the queue no more.
  void leave(const Stream* stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // The engine's part of the picture.
  void publish(const EngineStats& stats) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit Inbox(const EngineOptions& options)
      : options_(options),
        unread_scores_(std::make_shared<UnreadScores>(options.max_unread_scores_bytes)),
        queue_(options.max_waiting) {}

  std::shared_ptr<Stream> make_stream() ABSL_LOCKS_EXCLUDED(mutex_);
  bool has_news() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether requests are taken, and if not, why.
  absl::Status check_open() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of these two the group in which the request has room; an error: none, or it cannot wait for it.
  static absl::StatusOr<const GroupInfo*> group_for(const Request& request,
                                                    const GroupInfo& serving,
                                                    const GroupInfo& largest);

  const EngineOptions options_;
  const std::shared_ptr<UnreadScores> unread_scores_;  // Of all streams.
  mutable Mutex mutex_;
  mutable ConditionVariable changed_;  // All of the following but stats_.
  Messages messages_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Group> group_ ABSL_GUARDED_BY(mutex_);  // Null: there is none.
  EngineStats stats_ ABSL_GUARDED_BY(mutex_);
  GroupInfo largest_ ABSL_GUARDED_BY(mutex_);  // The last group of the most ranks so far.
  QueueShares queue_ ABSL_GUARDED_BY(mutex_);
  int64_t untaken_choices_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t streams_ ABSL_GUARDED_BY(mutex_) = 0;  // That somebody still holds.
  std::optional<int64_t> drain_ms_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status why_ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep
