// SPDX-License-Identifier: Apache-2.0
// Finds out whether a core's other hardware thread is busy, maybe with the work of another virtual
// machine, which this system does not see. If the other hardware thread is busy, this one
// multiplies and reads caches at half its speed or less.
#pragma once

namespace lockstep {

// The number of independent additions of integers that the calling thread's core does per cycle;
// 0 on other processors than x86-64. Takes about 0.2 ms.
double adds_per_cycle();

// Cores add 4 to 6 numbers per cycle for a thread alone, and half of that beside a busy sibling.
constexpr double kMinAddsAlone = 3.5;

}  // namespace lockstep
