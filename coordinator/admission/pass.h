// SPDX-License-Identifier: Apache-2.0
// A request that counts as under way, against what its sender may have at once.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace lockstep {

// Counts until it ends, or goes away. Whoever sends the last of an answer ends it before: a client
// that has the whole answer may send its next request. Thread-safe.
class Pass {
 public:
  virtual ~Pass() = default;
  virtual void end() = 0;  // Any number of times.
  // kInvalidArgument: its sender may not be served before so many others.
  virtual absl::Status check_priority(int32_t /*priority*/) const { return absl::OkStatus(); }
};

}  // namespace lockstep
