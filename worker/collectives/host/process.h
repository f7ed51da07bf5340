// SPDX-License-Identifier: Apache-2.0
// Whether another process of this host still lives. A pid does not suffice: pids are reused.
#pragma once

#include <cstdint>

namespace lockstep {

// A process sends its identity to its peers. Plain numbers: it is in shared memory.
struct ProcessIdentity {
  int64_t pid = 0;             // 0: a thread of the asking process, which lives as long.
  uint64_t start_ticks = 0;    // Since boot, from /proc; 0 if /proc is of another pid namespace.
  uint64_t pid_namespace = 0;  // Pids are comparable only within one; 0: unknown.
};

ProcessIdentity this_process();

// True if `other` has ended, is ending or is a zombie. False, too, if that cannot be known: another
// pid namespace, no /proc. Costs one to four system calls, about 10 us.
bool is_gone(const ProcessIdentity& self, const ProcessIdentity& other);

}  // namespace lockstep
