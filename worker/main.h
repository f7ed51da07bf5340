// SPDX-License-Identifier: Apache-2.0
// A worker process: dials the coordinator, takes what rank it is given, runs steps until it is told
// to stop, and starts over when the coordinator went away.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls/tls_files.h"
#include "worker/data/data_port.h"
#include "worker/session/session.h"

namespace lockstep {

struct WorkerMainOptions : SessionOptions {
  std::string coordinator;     // "host:port" or "unix-abstract:name".
  TlsFiles tls;                // Of the cluster, for all its connections; not given: plain.
  std::string device = "cpu";  // As open_backend() takes it.
  bool fast = false;           // Likewise.
  // Where ranks of other hosts connect: "10.0.0.2:50053", "off", or "": a free port at the address
  // by which this worker reaches the coordinator, where that is allowed.
  std::string data_listen = {};
  bool insecure = false;  // A data port without TLS may be reached by other machines.
  // The launcher's process: the worker dies with it, and does not wait for another coordinator. 0:
  // started by hand.
  int parent_pid = 0;
};

// The worker's data port, or null where it has none. An error is one of what the user said.
absl::StatusOr<std::unique_ptr<DataPort>> open_data_port(const WorkerMainOptions& options);

// Runs until the coordinator refuses or ends it, or `stop`. At log level debug it says at the end
// where the time went, by kernel. The exit code: 0, or 2 after a line on stderr.
int worker_main(const WorkerMainOptions& options);

}  // namespace lockstep
