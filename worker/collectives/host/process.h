// SPDX-License-Identifier: Apache-2.0
// Whether another process of this host still lives, told by more than its pid: pids are used again.
#pragma once

#include <cstdint>

namespace lockstep {

// What a process says of itself to its peers. Plain numbers: it travels in shared memory.
struct ProcessIdentity {
  int64_t pid = 0;             // 0: a thread of the asking process, which lives as long as it does.
  uint64_t start_ticks = 0;    // Since boot, from /proc; 0 where /proc is not this pid namespace's.
  uint64_t pid_namespace = 0;  // Pids mean nothing between two of them; 0: unknown.
};

ProcessIdentity this_process();

// True if `other` has ended, is ending or is a zombie. False as well where that cannot be known:
// another pid namespace, no /proc. Costs a system call or four, about 10 us.
bool is_gone(const ProcessIdentity& self, const ProcessIdentity& other);

}  // namespace lockstep
