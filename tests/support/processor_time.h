// SPDX-License-Identifier: Apache-2.0
// Processor time, to measure costs in tests that run in parallel with others.
#pragma once

#include "base/system/clock.h"

namespace lockstep {

inline double thread_seconds() { return 1e-9 * static_cast<double>(thread_time_ns()); }

}  // namespace lockstep
