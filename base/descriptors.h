// SPDX-License-Identifier: Apache-2.0
// How many file descriptors this process may have open.
#pragma once

#include <cstdint>

namespace lockstep {

int64_t descriptor_limit();
// Raises the soft limit to the hard one, as any process without select() may; many systems start
// processes with 1024. Returns the limit that holds from now on. Call before threads start.
int64_t raise_descriptor_limit();

}  // namespace lockstep
