// SPDX-License-Identifier: Apache-2.0
// A request's answer: a log of events that the engine appends to and one reader follows. An offset
// names an event for good, whatever has been freed, so that a later reader can take up where one
// with a broken connection was, as far back as the log is kept.
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

// The ids of a token and of the others beside it.
std::vector<int32_t> ids_of(const std::vector<Logprob>& token);

// The token, or the text of the request, that ended a choice with kStop.
struct StopCause {
  int32_t id = -1;   // -1: none.
  std::string text;  // Empty: none.
};

// One step's news of one choice. Text is what became safe to show with this token; it may be empty
// and come with a later one. The last event of a choice has a finish reason and may have no token.
struct StreamEvent {
  int32_t index = 0;  // The choice.
  std::vector<int32_t> token_ids;
  std::string text;
  // For each of token_ids, where asked for: the chosen token first, then the best ones.
  std::vector<std::vector<Logprob>> logprobs;
  // The same for the prompt's tokens, in order, of which each event of choice 0 has some; these
  // events come first and have nothing else. The first token, which nothing comes before, has 0.
  std::vector<std::vector<Logprob>> prompt_logprobs;
  FinishReason finish_reason = FinishReason::kNone;
  StopCause stop;
  int32_t prompt_tokens = 0;      // With a finish reason.
  int32_t completion_tokens = 0;  // With a finish reason.
  // With a finish reason, and with the first token: of the prompt, not computed again.
  int32_t cached_tokens = 0;
  int32_t preemptions = 0;  // With a finish reason: times that it gave up its pages.
  uint64_t seed = 0;
  std::vector<int32_t> prompt_ids;   // In choice 0's first event of these, where asked for.
  std::vector<float> prompt_logits;  // In choice 0's first event, where asked for.
};

// About the memory that an event takes.
int64_t bytes_of(const StreamEvent& event);

// Of one choice, that its reader may leave unread.
inline constexpr int64_t kMaxUnreadBytes = 256 << 10;
// Of all streams' prompts.
inline constexpr int64_t kMaxUnreadScoresBytes = 64 << 20;

// What is unread of log-probabilities of prompts, of all streams together. These come as fast as
// prompts are computed, so that a reader may be behind by more than by tokens. Thread-safe.
class UnreadScores {
 public:
  explicit UnreadScores(int64_t max_bytes) : left_(max_bytes) {}
  bool take(int64_t bytes);  // False: there is no room.
  void give_back(int64_t bytes) { left_ += bytes; }

 private:
  std::atomic<int64_t> left_;
};

// Thread-safe. Shared by the engine and the reader.
class Stream {
 public:
  // `unread_scores` may be null: then a prompt's log-probabilities count as tokens do.
  explicit Stream(int64_t max_unread_bytes = kMaxUnreadBytes,
                  std::shared_ptr<UnreadScores> unread_scores = nullptr)
      : max_unread_bytes_(max_unread_bytes), unread_scores_(std::move(unread_scores)) {}
  ~Stream();

  // Engine's side: append() and close() leave the listener to notify(). Nothing is appended after
  // close(). kResourceExhausted: the reader has left too much of this choice unread, or all readers
  // too many log-probabilities of prompts. The event is dropped, all later ones are, and close()
  // closes with this error. One event of a choice that has none of the latter is always kept,
  // however large it is.
  absl::Status append(StreamEvent event) ABSL_LOCKS_EXCLUDED(mutex_);
  // All choices are done (OK), or the request failed.
  void close(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls the listener, after any number of changes.
  void notify() ABSL_LOCKS_EXCLUDED(listener_mutex_);

  // Reader's side: a single one that moves forward. Says that all events before `offset` are done
  // with, which frees them, and copies those from `offset` on. True once the stream is closed and
  // all of it has been read.
  bool read(size_t offset, std::vector<StreamEvent>* events) ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until there is an event at `offset`, or the stream is closed.
  void wait(size_t offset) const ABSL_LOCKS_EXCLUDED(mutex_);
  // How it ended; meaningful once closed.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Called by notify(), and once at once; must not block, nor call set_listener. nullptr takes it
  // back: on return it is not running and will not be called again.
  void set_listener(std::function<void()> listener) ABSL_LOCKS_EXCLUDED(listener_mutex_);

 private:
  bool shares(const StreamEvent& event) const {
    return unread_scores_ != nullptr && !event.prompt_logprobs.empty();
  }
  absl::Status take_room(const StreamEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void give_back(const StreamEvent& event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t end() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return begin_ + events_.size(); }

  const int64_t max_unread_bytes_;
  const std::shared_ptr<UnreadScores> unread_scores_;
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
