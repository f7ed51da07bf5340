// SPDX-License-Identifier: Apache-2.0
// What something costs, for tests that run while others do.
#pragma once

#include <ctime>

namespace lockstep {

// Processor time of this thread, which other processes do not add to.
inline double thread_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace lockstep
