// SPDX-License-Identifier: Apache-2.0
// The file descriptors of this process.
#pragma once

#include <cstdint>

namespace lockstep {

// Opens /dev/null as standard input, output and error where the process was started without them:
// else the next file to be opened, a checkpoint or a socket, gets the number, and log lines are
// written into it. Writing fails, as it did. Call before anything is opened, by libraries too.
void open_standard_descriptors();

// How many may be open.
int64_t descriptor_limit();
// Raises the soft limit to the hard one, as any process without select() may; many systems start
// processes with 1024. Returns the limit that holds from now on. Call before threads start.
int64_t raise_descriptor_limit();

}  // namespace lockstep
