// SPDX-License-Identifier: Apache-2.0
// A rank's room for what sequences keep from step to step.
#pragma once

#include <cstdint>

namespace lockstep {

struct StateRoom {
  int64_t pages = 0;      // KV pages.
  int64_t sequences = 0;  // With state blocks at once; limits.sequences if no layer has any.
  // This many more of each, after the others, which no sequence has: 1 if steps are padded.
  int64_t spare = 0;
};

}  // namespace lockstep
