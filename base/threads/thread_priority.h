// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

namespace lockstep {

// Lowers the priority of the calling thread and of threads that it starts. On a processor that such
// a thread shares with a normal thread, it gets a tenth of the normal thread's time. If the system
// refuses, nothing changes.
inline void lower_thread_priority() {
  constexpr int kNice = 10;
  static_cast<void>(setpriority(PRIO_PROCESS, 0, kNice));  // On Linux it affects this thread only.
}

}  // namespace lockstep
