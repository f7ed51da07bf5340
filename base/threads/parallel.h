// SPDX-License-Identifier: Apache-2.0
// A loop over independent pieces of work on any number of threads. Kernels see only this interface,
// so no template of the thread pool gets into files compiled for one ISA.
#pragma once

#include <cstdint>

namespace lockstep {

// Refers to a callable: body(index, thread), with 0 <= thread < threads(). `body` must outlive the
// TaskRef.
struct TaskRef {
  const void* body;
  void (*call)(const void* body, int64_t index, int thread);
};

class Parallel {
 public:
  // Calls task for every index in [0, count), in any order on any thread, and returns when all are
  // done. The result's bits must not depend on which thread runs which index. Not reentrant.
  virtual void run(int64_t count, TaskRef task) = 0;
  virtual int threads() const = 0;

 protected:
  ~Parallel() = default;
};

// for_each(pool, n, [&](int64_t index) {...}) or with (int64_t index, int thread).
template <typename Body>
void for_each(Parallel& parallel, int64_t count, const Body& body) {
  parallel.run(count, {&body, [](const void* self, int64_t index, int thread) {
                         const Body& typed = *static_cast<const Body*>(self);
                         if constexpr (requires { typed(index, thread); }) {
                           typed(index, thread);
                         } else {
                           typed(index);
                         }
                       }});
}

}  // namespace lockstep
