// SPDX-License-Identifier: Apache-2.0
// How a process of ours ended.
#pragma once

#include <string>

namespace lockstep {

struct ProcessEnd {
  std::string how;  // For people: "killed by signal 9", "exit code 2".
  // By a signal that somebody sends to end processes, and none that a fault of its own raises:
  // SIGKILL, SIGTERM, SIGINT or SIGHUP. The kernel sends SIGKILL as well, to free memory.
  bool from_outside = false;
};

// Of a status that waitpid() gave.
ProcessEnd process_end(int status);

}  // namespace lockstep
