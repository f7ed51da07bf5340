// SPDX-License-Identifier: Apache-2.0
// A worker process: dials the coordinator, takes the rank that it is assigned, runs steps until it
// is stopped, and dials again when the coordinator goes away.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/data_port.h"
#include "worker/options.h"

namespace lockstep {

// The worker's data port, or null if it has none. kUnavailable: the address by which this worker
// reaches the coordinator is not known yet, for instance because the coordinator's name does not
// resolve. Other errors: the user's options are wrong.
absl::StatusOr<std::unique_ptr<DataPort>> open_data_port(const WorkerProcessOptions& options);

// Runs until `options.stop` is requested; a launched worker also ends with its connection. At log
// level debug it prints a profile by kernel at the end. Returns the exit code: 0, or 2 after a line
// on stderr (the options are wrong, the coordinator refused the worker, or the device failed).
int worker_main(const WorkerProcessOptions& options);

}  // namespace lockstep
