// SPDX-License-Identifier: Apache-2.0
// A request's answer: a log of events that the engine appends to and any number of readers follow
// from any offset, so that a reader who lost its connection can take up where it was.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"

namespace lockstep {

enum class FinishReason { kNone, kStop, kLength, kCancelled };
// "stop", "length", "cancelled"; "" for kNone.
const char* finish_reason_name(FinishReason reason);

struct Logprob {
  int32_t id = 0;
  float logprob = 0;
};

// One step's news of one choice. Text is what became safe to show with this token; it may be empty
// and come with a later one. The last event of a choice has a finish reason and may have no token.
struct StreamEvent {
  int32_t index = 0;  // The choice.
  std::vector<int32_t> token_ids;
  std::string text;
  // For each of token_ids, where asked for: the chosen token first, then the best ones.
  std::vector<std::vector<Logprob>> logprobs;
  FinishReason finish_reason = FinishReason::kNone;
  int32_t prompt_tokens = 0;      // With a finish reason.
  int32_t completion_tokens = 0;  // With a finish reason.
  uint64_t seed = 0;
  std::vector<float> prompt_logits;  // In choice 0's first event, where asked for.
};

// Thread-safe. Shared by the engine and the readers.
class Stream {
 public:
  // Engine's side. Nothing is appended after close().
  void append(StreamEvent event) ABSL_LOCKS_EXCLUDED(mutex_);
  // All choices are done (OK), or the request failed.
  void close(absl::Status status) ABSL_LOCKS_EXCLUDED(mutex_);

  // Reader's side. Copies the events from `offset` on; true once the stream is closed and all of it
  // has been read.
  bool read(size_t offset, std::vector<StreamEvent>* events) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until there is an event at `offset`, or the stream is closed.
  void wait(size_t offset) const ABSL_LOCKS_EXCLUDED(mutex_);
  // How it ended; meaningful once closed.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Called after every append and close, from the engine's thread, and once at once; must not
  // block, nor call set_listener. nullptr takes it back: on return it is not running and will not
  // be called again.
  void set_listener(std::function<void()> listener) ABSL_LOCKS_EXCLUDED(listener_mutex_);

 private:
  void notify() ABSL_LOCKS_EXCLUDED(listener_mutex_);

  mutable Mutex mutex_;
  mutable ConditionVariable changed_;  // events_, closed_
  std::vector<StreamEvent> events_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Mutex listener_mutex_;
  std::function<void()> listener_ ABSL_GUARDED_BY(listener_mutex_);
};

}  // namespace lockstep
