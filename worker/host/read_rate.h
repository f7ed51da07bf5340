// SPDX-License-Identifier: Apache-2.0
// How fast this process reads memory: what a step of few rows waits for, and so by what the parts
// of unequal workers are cut.
#pragma once

#include <vector>

namespace lockstep {

// Bytes per second of all threads together, the best of some passes over more memory than
// processors have caches of their own. Takes up to 0.1 s of processor time, on threads of its own
// where `threads` > 1, bound as a worker's. 0: there is no memory for it.
double measure_read_rate(int threads, const std::vector<int>& processors);

}  // namespace lockstep
