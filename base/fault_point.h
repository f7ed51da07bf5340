// SPDX-License-Identifier: Apache-2.0
// Places where a simulation has the rare way taken: a cache emptied that need not be, a page not
// found. Each is right at any time, only slower. The idea is FoundationDB's ("buggify"; Zhou et
// al., 2021). In the product nobody sets them, and each costs a look at a pointer.
#pragma once

namespace lockstep {

class FaultPoints {
 public:
  virtual ~FaultPoints() = default;
  // Whether the rare way is taken at the point of this name, this time.
  virtual bool fires(const char* name) = 0;
};

// This thread's; null: no point fires.
inline thread_local FaultPoints* fault_points = nullptr;

inline bool fault_point(const char* name) {
  return fault_points != nullptr && fault_points->fires(name);
}

}  // namespace lockstep
