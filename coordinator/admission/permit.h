// SPDX-License-Identifier: Apache-2.0
// The right to run one request. While the request runs, it counts for its client's limits.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace lockstep {

// The request counts until end() or the permit's destruction. end() is called before an answer's
// last part is sent, because a client that has the whole answer may send its next request at once.
// Thread-safe.
class Permit {
 public:
  virtual ~Permit() = default;
  virtual void end() = 0;  // May be called repeatedly.
  // kInvalidArgument: the client's key does not allow this priority.
  virtual absl::Status check_priority(int32_t /*priority*/) const { return absl::OkStatus(); }
};

}  // namespace lockstep
