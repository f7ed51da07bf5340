// SPDX-License-Identifier: Apache-2.0
// Whether another process of this host still lives. A pid does not suffice: pids are reused.
#pragma once

#include <cstdint>

namespace lockstep {

// A process sends its identity to its peers. It has plain numbers only, since it is put into shared
// memory.
struct ProcessIdentity {
  int64_t pid = 0;             // 0: a thread of the asking process.
  uint64_t start_ticks = 0;    // Start time since boot; 0 if /proc is of another pid namespace.
  uint64_t pid_namespace = 0;  // Pids of two namespaces cannot be compared; 0: unknown.
};

ProcessIdentity this_process();

// True if `other` has ended, is ending or is a zombie. False if it lives, or if that cannot be
// known (another pid namespace, or no /proc). Costs one to four system calls, about 10 us.
bool is_gone(const ProcessIdentity& self, const ProcessIdentity& other);

}  // namespace lockstep
