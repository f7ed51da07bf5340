// SPDX-License-Identifier: Apache-2.0
// Handles a lack of memory. An allocation that fails for one request ends only that request.
// Anywhere else, a failed allocation ends the process with one line on standard error.
#pragma once

#include <new>
#include <utility>

#include "absl/status/status.h"

namespace lockstep {

// kUnavailable: the client may retry the request.
absl::Status out_of_memory();

// Returns work()'s status, or out_of_memory() if memory ran out; what work() allocated is freed.
template <typename Work>
absl::Status within_memory(Work work) {
  try {
    return std::move(work)();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

// Installs a handler: a process that ends for lack of memory, or because no thread can be started,
// says so in one line of standard error and exits with code 2. Call it once, in main().
void explain_ends_of_memory();

}  // namespace lockstep
