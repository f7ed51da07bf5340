// SPDX-License-Identifier: Apache-2.0
// A request's answer: a log of events; the engine appends and one reader follows. An offset always
// names the same event, even after others are freed. So if a reader's connection breaks, a new
// reader can continue at the same offset, as long as the log is kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/threads/mutex.h"

namespace lockstep {

enum class FinishReason { kNone, kStop, kLength, kCancelled };
// "stop", "length", "cancelled"; "" for kNone.
const char* finish_reason_name(FinishReason reason);

struct Logprob {
  int32_t id = 0;
  float logprob = 0;
};

// The ids of a token and its alternatives.
std::vector<int32_t> ids_of(const std::vector<Logprob>& token);

// The end token or stop id (`id`), or the stop string (`text`), that ended a choice with kStop.
struct StopCause {
  int32_t id = -1;   // -1: none.
  std::string text;  // Empty: none.
};

// One step's result for one choice. `text` is the text that is safe to show now: it may be empty,
// and a token's text may be in a later event. The last event of a choice has a finish reason and
// may have no token.
struct StreamEvent {
  int32_t index = 0;  // The choice.
  std::vector<int32_t> token_ids;
  std::string text;
  // For each of token_ids, if requested: the chosen token first, then the best ones.
  std::vector<std::vector<Logprob>> logprobs;
  // The same for the prompt's tokens, in order, spread over choice 0's first events, which have
  // nothing else. The first token has no predecessor: its list has only its id, with a
  // log-probability of 0.
  std::vector<std::vector<Logprob>> prompt_logprobs;
  FinishReason finish_reason = FinishReason::kNone;
  StopCause stop;
  int32_t prompt_tokens = 0;      // With a finish reason.
  int32_t completion_tokens = 0;  // With a finish reason.
  // With a finish reason and with the first token: prompt tokens that cached KV pages had.
  int32_t cached_tokens = 0;
  int32_t preemptions = 0;  // With a finish reason: how often the choice lost its pages.
  uint64_t seed = 0;
  std::vector<int32_t> prompt_ids;   // In choice 0's first event after the scores, if requested.
  std::vector<float> prompt_logits;  // In choice 0's first event, if requested.
};

// The approximate memory of an event.
int64_t bytes_of(const StreamEvent& event);

// The max of unread bytes per choice.
inline constexpr int64_t kMaxUnreadBytes = 256 << 10;
// The max bytes of unread scores of prompts, of all streams together.
inline constexpr int64_t kMaxUnreadScoresBytes = 64 << 20;
// The max of all other unread bytes, of all streams together.
inline constexpr int64_t kMaxAllUnreadBytes = 256 << 20;

// The memory that is left for unread events of all streams. Thread-safe.
class UnreadLimit {
 public:
  explicit UnreadLimit(int64_t max_bytes) : left_(max_bytes) {}
  bool take(int64_t bytes);                            // False: there is no room.
  void take_anyway(int64_t bytes) { left_ -= bytes; }  // The room may become negative.
  void give_back(int64_t bytes) { left_ += bytes; }

 private:
  std::atomic<int64_t> left_;
};

// The memory for unread events that all streams share. Log-probabilities of prompts arrive as fast
// as prompts are computed, so readers may fall behind further than with tokens. Therefore these
// log-probabilities have a limit of their own.
struct UnreadLimits {
  UnreadLimit scores{kMaxUnreadScoresBytes};
  UnreadLimit others{kMaxAllUnreadBytes};
};

// Thread-safe. Shared by the engine and the reader.
class Stream {
 public:
  // Without `limits`, `max_unread_bytes` is the only limit, also for log-probabilities of prompts.
  explicit Stream(int64_t max_unread_bytes = kMaxUnreadBytes,
                  std::shared_ptr<UnreadLimits> limits = nullptr)
      : max_unread_bytes_(max_unread_bytes), unread_limits_(std::move(limits)) {}
  ~Stream();

  // The engine's side: append() and close() do not call the listener, notify() does. Nothing is
  // appended after close(). append() returns kResourceExhausted if this choice has too many unread
  // bytes, or if all streams together have too many and this choice has more than a little. Then
  // this event and all later ones are dropped, and close() uses this error. A choice's only unread
  // event is kept, however large. Only the limit of all streams together (UnreadLimits::scores)
  // applies to events with log-probabilities of prompts.
  absl::Status append(StreamEvent event) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the log. OK: all choices are done; an error: the request failed.
  void close(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls the listener, after any number of changes.
  void notify() ABSL_LOCKS_EXCLUDED(listener_mutex_);

  // The reader's side: a single reader that moves forward. Frees all events before `offset` and
  // copies those from `offset` on. True after the stream is closed and all of it was read.
  bool read(size_t offset, std::vector<StreamEvent>* events) ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until there is an event at `offset`, or the stream is closed.
  void wait(size_t offset) const ABSL_LOCKS_EXCLUDED(mutex_);
  // The final status; valid after close().
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The listener is called at once, and then by notify(). It must not block or call set_listener.
  // nullptr removes it: on return it is not running and will not be called again.
  void set_listener(std::function<void()> listener) ABSL_LOCKS_EXCLUDED(listener_mutex_);

 private:
  bool shares(const StreamEvent& event) const {
    return unread_limits_ != nullptr && !event.prompt_logprobs.empty();
  }
  absl::Status take_room(const StreamEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void give_back(const StreamEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t end() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return begin_ + events_.size(); }

  const int64_t max_unread_bytes_;
  const std::shared_ptr<UnreadLimits> unread_limits_;
  mutable Mutex mutex_;
  mutable ConditionVariable changed_;                       // events_, closed_
  std::deque<StreamEvent> events_ ABSL_GUARDED_BY(mutex_);  // From offset begin_ on.
  size_t begin_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int32_t, int64_t> unread_bytes_ ABSL_GUARDED_BY(mutex_);  // By choice.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status overflow_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Mutex listener_mutex_;
  std::function<void()> listener_ ABSL_GUARDED_BY(listener_mutex_);
};

}  // namespace lockstep
