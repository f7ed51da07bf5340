// SPDX-License-Identifier: Apache-2.0
// A request that counts as under way, against what its sender may have at once.
#pragma once

namespace lockstep {

// Counts until it ends, or goes away. Whoever sends the last of an answer ends it before: a client
// that has the whole answer may send its next request. Thread-safe.
class Pass {
 public:
  virtual ~Pass() = default;
  virtual void end() = 0;  // Any number of times.
};

}  // namespace lockstep
