// SPDX-License-Identifier: Apache-2.0
// What a rank has room for of what sequences leave behind from step to step.
#pragma once

#include <cstdint>

namespace lockstep {

struct StateRoom {
  int64_t pages = 0;      // Of KV.
  int64_t sequences = 0;  // That have state blocks at once; limits.sequences where there are none.
  // Of each so many more, behind the others, which no sequence has: 1 where steps are padded.
  int64_t spare = 0;
};

}  // namespace lockstep
