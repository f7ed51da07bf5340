// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

namespace lockstep {

// Gives the calling thread, and threads that it starts, a tenth of another thread's share of a
// processor that both need. If the system refuses, nothing changes.
inline void lower_thread_priority() {
  constexpr int kNice = 10;
  static_cast<void>(setpriority(PRIO_PROCESS, 0, kNice));  // On Linux it affects this thread only.
}

}  // namespace lockstep
