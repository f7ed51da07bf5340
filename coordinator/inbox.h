// SPDX-License-Identifier: Apache-2.0
// Where other threads and the engine's loop meet: requests and cancellations go in, a picture of
// the engine comes out. The only state that they share.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "coordinator/engine.h"

namespace lockstep {

struct Submission {
  std::shared_ptr<const Request> request;
  std::shared_ptr<Stream> stream;
};

// What the loop takes at once. A cancellation comes with, or after, its submission.
struct Messages {
  std::vector<Submission> submitted;
  std::vector<std::shared_ptr<Stream>> cancelled;
  bool stopping = false;
};

// Thread-safe.
class Inbox {
 public:
  explicit Inbox(const EngineOptions& options) : options_(options) {}

  // Other threads' side: as Engine's methods of these names.
  absl::StatusOr<std::shared_ptr<Stream>> submit(Request request) ABSL_LOCKS_EXCLUDED(mutex_);
  void cancel(std::shared_ptr<Stream> stream) ABSL_LOCKS_EXCLUDED(mutex_);
  EngineStats stats() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status wait_ready() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The loop is to end. Returns the group that stands, if any: a step under way is to be aborted.
  std::shared_ptr<Group> stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // The loop's side. A group stands: requests are taken from now on.
  void open(std::shared_ptr<Group> group) ABSL_LOCKS_EXCLUDED(mutex_);
  // It is over: no more requests. What was not taken is returned.
  Messages close() ABSL_LOCKS_EXCLUDED(mutex_);
  // No group will ever stand, and why.
  void end(absl::Status why) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes all messages; with a patience above zero waits so long for the first. Once the loop is to
  // end, nothing else is taken.
  Messages take(std::chrono::milliseconds patience) ABSL_LOCKS_EXCLUDED(mutex_);
  // The loop's part of the picture. `unstarted`: requests taken of which nothing has run yet.
  void publish(const EngineStats& stats, int64_t unstarted) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status check(const Request& request) const ABSL_LOCKS_EXCLUDED(mutex_);
  bool has_news() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status no_group() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const EngineOptions options_;
  mutable Mutex mutex_;
  mutable ConditionVariable changed_;  // messages_, group_, ended_
  Messages messages_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Group> group_ ABSL_GUARDED_BY(mutex_);  // Null: none stands.
  EngineStats stats_ ABSL_GUARDED_BY(mutex_);
  int64_t unstarted_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t choices_submitted_ ABSL_GUARDED_BY(mutex_) = 0;  // Not yet taken.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status why_ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep
