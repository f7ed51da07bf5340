// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/workers/process_end.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>

namespace lockstep {

ProcessEnd process_end(int status) {
  if (!WIFSIGNALED(status)) {
    const int code = WEXITSTATUS(status);
    return {.how = fmt::format("exit code {}", code), .from_outside = code == 0};
  }
  const int signal = WTERMSIG(status);
  return {.how = fmt::format("killed by signal {}", signal),
          .from_outside =
              signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP};
}

}  // namespace lockstep
