// SPDX-License-Identifier: Apache-2.0
// The file descriptors of this process.
#pragma once

#include <cstdint>

namespace lockstep {

// Opens /dev/null as standard input, output and error if the process was started without them.
// Without this, the next opened file (a checkpoint, a socket) may become standard error, and log
// lines are written into it. /dev/null is opened for reading, so that writing still fails. Call
// before anything, libraries included, opens a file.
void open_standard_descriptors();

// The max number of open descriptors.
int64_t descriptor_limit();
// Raises the soft limit to the hard one, as any process without select() may; many systems start
// processes with 1024. Returns the new limit. Call before threads start.
int64_t raise_descriptor_limit();

}  // namespace lockstep
