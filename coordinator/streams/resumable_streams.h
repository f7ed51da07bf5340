// SPDX-License-Identifier: Apache-2.0
// Resumable requests. A resumable request continues without a reader, and its log is kept for a
// while after its end. All APIs share one set of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/system/clock.h"
#include "base/threads/mutex.h"
#include "coordinator/admission/permit.h"
#include "coordinator/engine/engine.h"
#include "coordinator/streams/event_log.h"
#include "coordinator/streams/resumable_index.h"

namespace lockstep {

namespace openai {
struct AnswerFacts;
}

// The properties that determine the format of an answer, from its first byte on.
struct ResumableFacts {
  bool is_chat = false;
  bool logprobs = false;
  int64_t created_s = 0;  // Since 1970.
  // Null: the request came by gRPC.
  std::shared_ptr<const openai::AnswerFacts> http;
};

// Thread-safe.
class ResumableStream {
 public:
  ResumableStream(Engine* engine, ResumableName name, ResumableFacts facts)
      : engine_(engine), name_(std::move(name)), facts_(std::move(facts)) {}

  const ResumableName& name() const { return name_; }
  const ResumableFacts& facts() const { return facts_; }
  EventLog& log() const { return *log_; }
  // Ends the request soon, as Engine::cancel() does. No effect after its end.
  void cancel() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class ResumableStreams;

  Engine* const engine_;
  const ResumableName name_;
  const ResumableFacts facts_;
  const std::shared_ptr<EventLog> log_ = std::make_shared<EventLog>();
  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // source_ and permit_ are set until the stream has ended.
  std::shared_ptr<Stream> source_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Permit> permit_ ABSL_GUARDED_BY(mutex_);
};

// A request that clients can resume.
struct ResumableParams {
  ResumableName name;
  ResumableFacts facts;
  int64_t bytes = 0;  // Memory of the facts, beyond kResumableStreamBytes.
  // Kept until the request ends, so that it counts for its key's limit. May be null.
  std::shared_ptr<Permit> permit;
};

// Thread-safe. Outlives the engines.
class ResumableStreams {
 public:
  // `now_ms` is a steady clock.
  explicit ResumableStreams(const ResumableOptions& options,
                            std::function<int64_t()> now_ms = steady_now_ms);
  ~ResumableStreams();

  // Submits the request and keeps its answer. Errors: those of the engine and of
  // ResumableIndex::add().
  absl::StatusOr<std::shared_ptr<ResumableStream>> submit(Engine* engine, EngineRequest request,
                                                          ResumableParams resumable)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // See ResumableIndex::find().
  absl::StatusOr<std::shared_ptr<ResumableStream>> find(const ResumableName& name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  ResumableCounts counts() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // On the notifier's thread: moves the stream's events to its log.
  void follow(ResumableStream& resumable);
  void end(ResumableStream& resumable, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status grow(const ResumableName& name, int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void trim() ABSL_LOCKS_EXCLUDED(mutex_);
  // Call after every change of the index.
  void queue_dropped() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<int64_t()> now_ms_;
  Mutex mutex_;
  ConditionVariable changed_;
  ResumableIndex index_ ABSL_GUARDED_BY(mutex_);
  // Dropped streams, which the thread frees: freeing may take longer than the engine can wait.
  std::vector<std::shared_ptr<ResumableStream>> to_free_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep
