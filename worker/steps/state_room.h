// SPDX-License-Identifier: Apache-2.0
// The number of KV pages and state blocks that a rank has memory for.
#pragma once

#include <cstdint>

namespace lockstep {

struct StateRoom {
  int64_t pages = 0;      // KV pages.
  int64_t sequences = 0;  // Sequences with state blocks; limits.sequences if no layer has any.
  // The number of additional pages, and of additional blocks per layer, after the others. No
  // sequence has them. 1 if steps are padded.
  int64_t spare = 0;
};

}  // namespace lockstep
