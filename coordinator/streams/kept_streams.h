// SPDX-License-Identifier: Apache-2.0
// Resumable requests: each runs without a reader, too, and its log is kept for a while after its
// end. All APIs share them.
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
#include "coordinator/admission/pass.h"
#include "coordinator/engine/engine.h"
#include "coordinator/streams/kept_index.h"
#include "coordinator/streams/kept_log.h"

namespace lockstep {

namespace openai {
struct AnswerFacts;
}

// What determines the format of an answer, from its first byte on.
struct KeptFacts {
  bool is_chat = false;
  bool logprobs = false;
  int64_t created_s = 0;  // Since 1970.
  // Null: the request came by gRPC.
  std::shared_ptr<const openai::AnswerFacts> http;
};

// Thread-safe.
class KeptStream {
 public:
  KeptStream(Engine* engine, KeptName name, KeptFacts facts)
      : engine_(engine), name_(std::move(name)), facts_(std::move(facts)) {}

  const KeptName& name() const { return name_; }
  const KeptFacts& facts() const { return facts_; }
  KeptLog& log() const { return *log_; }
  // Ends it soon, as Engine::cancel() does. No effect after it has ended.
  void cancel() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class KeptStreams;

  Engine* const engine_;
  const KeptName name_;
  const KeptFacts facts_;
  const std::shared_ptr<KeptLog> log_ = std::make_shared<KeptLog>();
  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // Both are set until it has ended.
  std::shared_ptr<Stream> source_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Pass> pass_ ABSL_GUARDED_BY(mutex_);
};

// A request that will be kept.
struct KeptRequest {
  KeptName name;
  KeptFacts facts;
  int64_t bytes = 0;           // Memory of the facts, beyond kKeptStreamBytes.
  std::shared_ptr<Pass> pass;  // Held while it runs: it counts for its key's limit. May be null.
};

// Thread-safe. Outlives the engines.
class KeptStreams {
 public:
  // `now_ms` is a steady clock.
  explicit KeptStreams(const KeptOptions& options, std::function<int64_t()> now_ms = steady_now_ms);
  ~KeptStreams();

  // Submits the request and keeps its answer. Errors: the engine's and KeptIndex::add()'s.
  absl::StatusOr<std::shared_ptr<KeptStream>> submit(Engine* engine, Request request,
                                                     KeptRequest kept) ABSL_LOCKS_EXCLUDED(mutex_);
  // See KeptIndex::find().
  absl::StatusOr<std::shared_ptr<KeptStream>> find(const KeptName& name)
      ABSL_LOCKS_EXCLUDED(mutex_);
  KeptCounts counts() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // On the notifier's thread: moves the stream's events to its log.
  void follow(KeptStream& kept);
  void end(KeptStream& kept, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status grow(const KeptName& name, int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void trim() ABSL_LOCKS_EXCLUDED(mutex_);
  // Call after every change of the index.
  void bury_dropped() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<int64_t()> now_ms_;
  Mutex mutex_;
  ConditionVariable changed_;
  KeptIndex index_ ABSL_GUARDED_BY(mutex_);
  // Dropped streams, which the thread frees: freeing may take longer than the engine can wait.
  std::vector<std::shared_ptr<KeptStream>> buried_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep
