// SPDX-License-Identifier: Apache-2.0
// A worker process: dials the coordinator, takes the rank that it is assigned, runs steps until it
// is stopped, and dials again when the coordinator goes away.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/data_port.h"
#include "worker/options.h"

namespace lockstep {

// The worker's data port, or null if it has none. kUnavailable: the address that reaches the
// coordinator is not known yet, for instance because its name does not resolve. Other errors are
// the user's options.
absl::StatusOr<std::unique_ptr<DataPort>> open_data_port(const WorkerProcessOptions& options);

// Runs until the coordinator refuses or ends it, or `stop`. At log level debug it prints a profile
// by kernel at the end. The exit code: 0, or 2 after a line on stderr.
int worker_main(const WorkerProcessOptions& options);

}  // namespace lockstep
