// SPDX-License-Identifier: Apache-2.0
// A worker process: dials the coordinator, takes what rank it is given, runs steps until it is told
// to stop, and starts over when the coordinator went away.
#pragma once

#include <string>

#include "base/tls_files.h"
#include "worker/session.h"

namespace lockstep {

struct WorkerMainOptions : SessionOptions {
  std::string coordinator;     // "host:port" or "unix:/path".
  TlsFiles tls;                // With which it is dialled; not given: plain.
  std::string device = "cpu";  // As open_backend() takes it.
  // The launcher's process: the worker dies with it, leaves Ctrl-C to it, and does not wait for
  // another coordinator. 0: started by hand.
  int parent_pid = 0;
};

// Runs until the coordinator refuses or ends it, or `stop`. At log level debug it says at the end
// where the time went, by kernel. The exit code: 0, or 2 after a line on stderr.
int worker_main(const WorkerMainOptions& options);

}  // namespace lockstep
