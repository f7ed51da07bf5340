// SPDX-License-Identifier: Apache-2.0
// The only state shared by the engine's thread and other threads: requests and cancellations go in,
// a snapshot of the engine comes out.
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

// Messages for the engine's thread. No request is cancelled before it is submitted.
struct Messages {
  std::vector<std::unique_ptr<Job>> submitted;
  std::vector<std::shared_ptr<Stream>> cancelled;
  // Requests that others displaced from the queue. They end with displaced(), unless they have
  // begun.
  std::vector<std::shared_ptr<Stream>> displaced;
  std::optional<int64_t> drain_ms;  // The drain deadline; sent once.
  // The result of Cluster::form(), one per call.
  std::optional<absl::StatusOr<std::unique_ptr<Group>>> formed;
  bool stopping = false;
};

// The load that a request adds to the queue.
QueueLoad load_of(const PreparedRequest& request);

// kResourceExhausted, for a request that a request of another client displaced from the queue.
absl::Status displaced();

// Thread-safe. Streams may outlive the inbox that made them.
class Inbox : public std::enable_shared_from_this<Inbox> {
 public:
  static std::shared_ptr<Inbox> create(const EngineOptions& options) {
    return std::shared_ptr<Inbox>(new Inbox(options));
  }

  // The side of other threads: see Engine's methods of the same names.
  absl::Status accepting() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status accepting(const std::string& client) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::shared_ptr<Stream>> submit(EngineRequest request) ABSL_LOCKS_EXCLUDED(mutex_);
  void cancel(std::shared_ptr<Stream> stream) ABSL_LOCKS_EXCLUDED(mutex_);
  EngineStats stats() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status wait_ready() const ABSL_LOCKS_EXCLUDED(mutex_);
  void drain(int64_t deadline_ms) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status wait_end() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Stops the engine. Returns its group, if any: a running step must be aborted.
  std::shared_ptr<Group> stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // The engine's side. A group was formed: from the first group on, requests are accepted.
  void open(std::shared_ptr<Group> group) ABSL_LOCKS_EXCLUDED(mutex_);
  // The group is lost; requests wait for the next one.
  void lost() ABSL_LOCKS_EXCLUDED(mutex_);
  // No group will be formed any more because of `why`. Returns the messages that were not taken.
  Messages end(absl::Status why) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called by the thread that waits in Cluster::form().
  void formed(absl::StatusOr<std::unique_ptr<Group>> group) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes all messages. Waits for the first one until the steady clock reaches `until_ms`; nullopt:
  // without limit. After stop() only `stopping` is taken: end() returns the other messages.
  Messages take(std::optional<int64_t> until_ms) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for `time`, or until stop(): then returns true.
  bool wait_stopping(std::chrono::milliseconds time) ABSL_LOCKS_EXCLUDED(mutex_);
  // A request has begun or ended: it leaves the queue.
  void leave(const Stream* stream) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets the engine's part of the snapshot.
  void publish(const EngineStats& stats) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit Inbox(const EngineOptions& options) : options_(options), queue_(options.max_waiting) {}

  std::shared_ptr<Stream> make_stream() ABSL_LOCKS_EXCLUDED(mutex_);
  bool has_input() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // OK if requests are accepted, else the reason.
  absl::Status check_open() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The group for the request: `serving`, or `largest` if only that has room and the request has a
  // deadline. Otherwise an error.
  static absl::StatusOr<const GroupInfo*> group_for(const EngineRequest& request,
                                                    const GroupInfo& serving,
                                                    const GroupInfo& largest);

  const EngineOptions options_;
  const std::shared_ptr<UnreadLimits> unread_limits_ = std::make_shared<UnreadLimits>();
  mutable Mutex mutex_;
  mutable ConditionVariable changed_;  // Signals changes of the members below, except stats_.
  Messages messages_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Group> group_ ABSL_GUARDED_BY(mutex_);  // Null: no group.
  EngineStats stats_ ABSL_GUARDED_BY(mutex_);
  GroupInfo largest_ ABSL_GUARDED_BY(mutex_);  // The latest group with the most ranks so far.
  QueueShares queue_ ABSL_GUARDED_BY(mutex_);
  int64_t untaken_choices_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t streams_ ABSL_GUARDED_BY(mutex_) = 0;  // Streams that still have a holder.
  std::optional<int64_t> drain_ms_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status why_ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep
