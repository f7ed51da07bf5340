// SPDX-License-Identifier: Apache-2.0
// How fast this process reads memory. That limits steps of few rows, so a faster worker gets a
// larger part of the model.
#pragma once

#include <vector>

namespace lockstep {

// Bytes per second of all threads together: the best of several passes over more memory than the
// CPUs' own caches hold. Takes up to 0.1 s of CPU time. The calling thread and `threads` - 1 new
// threads read, bound to `processors` like a worker's threads. Returns 0 if there is no memory for
// it.
double measure_read_rate(int threads, const std::vector<int>& processors);

}  // namespace lockstep
