// SPDX-License-Identifier: Apache-2.0
// One request to generate: its body is read on the pool, its prompts are sent to the engine, and
// their streams become the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/threads/mutex.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/api/served_model.h"
#include "coordinator/api/task_pool.h"
#include "coordinator/http/exchange.h"
#include "coordinator/openai/answers/whole_answer.h"
#include "coordinator/openai/fields/unknown_fields.h"
#include "coordinator/output/format_choice.h"
#include "coordinator/streams/stream_reader.h"

namespace lockstep::openai {

// The state that all requests share; outlives them.
struct ApiContext {
  ServedModel served;
  TaskPool* pool = nullptr;
  // The memory of the facts of all answers.
  const std::shared_ptr<BufferedBytes> held = std::make_shared<BufferedBytes>();
  int64_t max_held_bytes = 0;
  FormatChoice formats;
  std::vector<int32_t> special_ids;   // All special tokens.
  std::vector<int32_t> tool_tag_ids;  // The special tokens that the parser of calls must see.
  std::vector<int32_t> thought_tag_ids;
  UnknownFields unknown_fields;
};

// Keeps itself alive until it has answered, or until the client is gone and its streams are closed.
// Does not use the pool after the client is gone.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // Runs on an I/O thread: checks that the engine's queue has room before anything is read, and
  // passes the work on to the pool.
  static void begin(Endpoint endpoint, ApiContext* context,
                    const std::shared_ptr<http::Exchange>& exchange);

  Generation(Endpoint endpoint, ApiContext* context, std::shared_ptr<http::Exchange> exchange);

 private:
  struct Progress {
    size_t offset = 0;  // The number of events read.
    bool closed = false;
  };

  // Runs on the pool.
  void start() ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds each stream that it starts to `streams`. An error becomes the answer; the caller must then
  // cancel the streams.
  absl::Status answer(std::vector<std::shared_ptr<Stream>>* streams) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status submit(const ApiRequest& request, std::vector<std::shared_ptr<Stream>>* streams);
  absl::Status start_resumable(const ApiRequest& request);
  bool goes_on_without_tools(const ApiRequest& request) const;
  absl::StatusOr<EngineRequest> to_engine(const ApiRequest& request, size_t prompt,
                                          RequestBatch* batch);
  int64_t repeated_bytes() const;
  AnswerFacts facts_of(const ApiRequest& request) const;
  // Counts the memory of the facts until the answer ends, unless it can be resumed.
  // kResourceExhausted: the client's answers hold too much.
  absl::Status hold_facts();
  absl::Status check_deadline() const;
  void stream_answer() ABSL_LOCKS_EXCLUDED(mutex_);
  // Called once: it moves the facts to the answer's writer.
  std::shared_ptr<const AnswerFacts> take_facts();
  std::vector<std::unique_ptr<StreamReader>> readers_of(
      const std::vector<std::shared_ptr<Stream>>& streams) const;
  void gather_answer(const ApiRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  void respond() ABSL_LOCKS_EXCLUDED(mutex_);

  // These run on the notifier's thread.
  void on_events() ABSL_LOCKS_EXCLUDED(mutex_);
  void read_stream(size_t prompt) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs on an I/O thread: the client is gone.
  void abandon() ABSL_LOCKS_EXCLUDED(mutex_);
  void cancel_all(const std::vector<std::shared_ptr<Stream>>& streams);

  const Endpoint endpoint_;
  ApiContext* const context_;
  // The notifier's thread uses it after the answer. By then the server may have ended, and
  // `context_` with it.
  Engine* const engine_;
  const std::shared_ptr<http::Exchange> exchange_;
  int64_t deadline_ms_ = 0;  // By the steady clock; 0: none.
  AnswerFacts facts_;        // Used only before the answer begins.

  Mutex mutex_;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;  // The answer's head is sent or soon will be.
  std::vector<std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);  // By prompt.
  std::vector<Progress> progress_ ABSL_GUARDED_BY(mutex_);                // By prompt.
  std::unique_ptr<WholeAnswer> answer_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::openai
