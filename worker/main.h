// SPDX-License-Identifier: Apache-2.0
// A worker process: dials the coordinator, takes what rank it is given, runs steps until it is told
// to stop, and starts over when the coordinator went away.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "worker/packed_cache.h"

namespace lockstep {

struct WorkerMainOptions {
  std::string coordinator;  // "host:port" or "unix:/path".
  std::string token;        // The join token; may be empty where the coordinator asks for none.
  int threads = 1;
  std::vector<int> processors;  // One a thread, to be bound to; empty: threads go where they like.
  std::string device = "cpu";   // As open_backend() takes it.
  double memory_fraction = 0;   // See Backend; 0: the device's own.
  int preferred_rank = -1;      // Which worker of its launcher this is; -1: any rank.
  PackedCacheOptions weight_cache = {};
  // The launcher's process: the worker dies with it, leaves Ctrl-C to it, and does not wait for
  // another coordinator. 0: started by hand.
  int parent_pid = 0;
  std::stop_token stop;  // Ends the worker between two steps.
};

// Runs until the coordinator refuses or ends it, or `stop`. At log level debug it says at the end
// where the time went, by kernel. The exit code: 0, or 2 after a line on stderr.
int worker_main(const WorkerMainOptions& options);

}  // namespace lockstep
