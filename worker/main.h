// SPDX-License-Identifier: Apache-2.0
// A worker process: dials the coordinator, takes what rank it is given, runs steps until it is told
// to stop, and starts over when the coordinator went away.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/data_port.h"
#include "worker/options.h"

namespace lockstep {

// The worker's data port, or null where it has none. An error is one of what the user said.
absl::StatusOr<std::unique_ptr<DataPort>> open_data_port(const WorkerProcessOptions& options);

// Runs until the coordinator refuses or ends it, or `stop`. At log level debug it says at the end
// where the time went, by kernel. The exit code: 0, or 2 after a line on stderr.
int worker_main(const WorkerProcessOptions& options);

}  // namespace lockstep
