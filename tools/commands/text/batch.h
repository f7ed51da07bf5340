// SPDX-License-Identifier: Apache-2.0
// A list of requests, good and bad, that run together and are answered in order.
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/threads/mutex.h"
#include "coordinator/engine/engine.h"
#include "tools/commands/text/answer.h"

namespace lockstep {

class Batch {
 public:
  // `engine`: null if all requests are bad.
  Batch(Engine* engine, std::vector<absl::StatusOr<EngineRequest>> requests);

  size_t size() const { return requests_.size(); }

  // Returns the answer of request `index`, or the reason why there is none. First it submits this
  // request and as many of the following ones as the engine's queue accepts. Call it on one thread,
  // for 0, 1, 2, ... in order; the answer is valid until the next call.
  absl::StatusOr<Answer*> start(size_t index) ABSL_LOCKS_EXCLUDED(mutex_);
  // Cancels what is running and submits nothing more. Any thread.
  void cancel() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<Answer> submit(const absl::StatusOr<EngineRequest>& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Engine* const engine_;
  const std::vector<absl::StatusOr<EngineRequest>> requests_;
  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // One for each submitted request.
  std::vector<absl::StatusOr<Answer>> answers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep
