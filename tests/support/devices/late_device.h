// SPDX-License-Identifier: Apache-2.0
// A device without a GPU, for tests: it runs the kernels of .cu files over the shim, in memory that
// the host cannot touch. Queued work runs as late as possible, at synchronize() or wait(), so that
// a host that reads an answer too early, or overwrites what a copy still needs, is detected. The
// memory is mapped without access except while the device works: a host that dereferences a pointer
// to it crashes. Every pointer that a kernel gets must be into memory that the device has allocated
// and not released. A captured launch has copies of its arguments and of the step, as on a GPU.
#pragma once

#include "worker/backend.h"

namespace lockstep {

// Tests may make any number of these devices; only one thread at a time uses a device. All have the
// address of the same GPU, so ranks on them do not use each other's memory.
Backend late_backend();
// Makes a device with the address of a new GPU. Ranks on these devices use each other's memory.
Backend late_peer_backend();

}  // namespace lockstep
