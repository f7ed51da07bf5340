// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

namespace lockstep {

// The thread that calls this, and threads that it starts, get a tenth of another thread's share
// where both want the same processor. Where the system refuses, all stays as it was.
inline void lower_thread_priority() {
  constexpr int kNice = 10;
  static_cast<void>(setpriority(PRIO_PROCESS, 0, kNice));  // Of the thread alone, on Linux.
}

}  // namespace lockstep
