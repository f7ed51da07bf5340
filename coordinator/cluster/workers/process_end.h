// SPDX-License-Identifier: Apache-2.0
// How a process of ours ended.
#pragma once

#include <string>

namespace lockstep {

struct ProcessEnd {
  std::string how;  // For people: "killed by signal 9", "exit code 2".
  // Somebody wanted it to end: by a signal that no fault of its own raises (SIGKILL, SIGTERM,
  // SIGINT or SIGHUP), or with exit code 0, as a worker ends at SIGTERM, or if its coordinator goes
  // away. The kernel sends SIGKILL as well, to free memory.
  bool from_outside = false;
};

// Of a status that waitpid() gave.
ProcessEnd process_end(int status);

}  // namespace lockstep
