// SPDX-License-Identifier: Apache-2.0
// How one of our processes ended.
#pragma once

#include <string>

namespace lockstep {

struct ProcessEnd {
  std::string how;  // Readable: "killed by signal 9", "exit code 2".
  // It was ended on purpose: by a signal that its own faults do not raise (SIGKILL, SIGTERM, SIGINT
  // or SIGHUP), or with exit code 0, as after SIGTERM or when its coordinator is gone. Linux also
  // sends SIGKILL when memory runs out.
  bool from_outside = false;
};

// From a status of waitpid().
ProcessEnd process_end(int status);

}  // namespace lockstep
