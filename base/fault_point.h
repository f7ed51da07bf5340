// SPDX-License-Identifier: Apache-2.0
// Points at which a simulation forces a rare path: a cache is emptied, or a page is not found. Each
// rare path is correct at any time, only slower. The idea is FoundationDB's ("buggify"; Zhou
// et al., 2021). The product never sets `fault_points`; each point then costs one check of that
// pointer.
#pragma once

namespace lockstep {

class FaultPoints {
 public:
  virtual ~FaultPoints() = default;
  // Whether the rare path is taken this time at the point of this name.
  virtual bool fires(const char* name) = 0;
};

// The fault points of this thread; null: no point fires.
inline thread_local FaultPoints* fault_points = nullptr;

inline bool fault_point(const char* name) {
  return fault_points != nullptr && fault_points->fires(name);
}

}  // namespace lockstep
