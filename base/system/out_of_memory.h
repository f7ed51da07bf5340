// SPDX-License-Identifier: Apache-2.0
// When the system gives no more memory. What asks for it on behalf of one request ends that request
// alone; elsewhere nothing can be promised any more, and the process ends with one line.
#pragma once

#include <new>
#include <utility>

#include "absl/status/status.h"

namespace lockstep {

// kUnavailable: the request may be sent again.
absl::Status out_of_memory();

// Returns work()'s status, or out_of_memory() where it ran out of it. Its values end with it.
template <typename Work>
absl::Status within_memory(Work work) {
  try {
    return std::move(work)();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

// From now on a process that ends because there is no memory, or no thread can be started, says so
// in one line of standard error and ends with exit code 2. Call it once, in main().
void explain_ends_of_memory();

}  // namespace lockstep
