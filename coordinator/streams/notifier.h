// SPDX-License-Identifier: Apache-2.0
// Notifies readers of streams, on a thread of its own: the readers' work, mostly a write to a
// client, would delay the engine's next step.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/threads/mutex.h"
#include "coordinator/streams/stream.h"

namespace lockstep {

// One thread calls changed() and notify().
class Notifier {
 public:
  Notifier();
  ~Notifier();  // Returns after all pending readers were notified.

  // notify() calls the stream's reader, once for any number of changes in a step.
  void changed(const std::shared_ptr<Stream>& stream);
  void notify() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void run() ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<std::shared_ptr<Stream>> changed_;  // Used by the engine's thread.
  Mutex mutex_;
  ConditionVariable wake_;  // pending_, stopping_
  std::vector<std::shared_ptr<Stream>> pending_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep
