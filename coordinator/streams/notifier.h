// SPDX-License-Identifier: Apache-2.0
// Tells readers of streams that there is something new, on a thread of its own: what they do then,
// mostly a write to a client, would keep the engine from its next step.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/threads/mutex.h"
#include "coordinator/streams/stream.h"

namespace lockstep {

// changed() and tell() belong to one thread.
class Notifier {
 public:
  Notifier();
  ~Notifier();  // After all that was handed over has been told.

  // Its reader is called after the next tell(), once for any number of changes of a step.
  void changed(const std::shared_ptr<Stream>& stream);
  void tell() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void run() ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<std::shared_ptr<Stream>> changed_;  // Of the engine's thread.
  Mutex mutex_;
  ConditionVariable wake_;  // pending_, stopping_
  std::vector<std::shared_ptr<Stream>> pending_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep
