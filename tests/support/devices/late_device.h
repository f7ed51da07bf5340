// SPDX-License-Identifier: Apache-2.0
// A device without a GPU, for tests: the kernels of .cu files over the shim, and memory that the
// host cannot touch. What is queued happens as late as it may, at synchronize() or wait(), so that
// a host which reads an answer too early or writes what a copy still needs is found out. Its memory
// is mapped without access but while it works: a host that follows its pointers dies of it. Every
// pointer that a kernel is given must be the device's, and not released. What is captured keeps the
// arguments and the step of then, as launches keep what they get by value.
#pragma once

#include "worker/backend.h"

namespace lockstep {

// Any number of them, each used by one thread at a time. They pass for one GPU, over which ranks do
// not meet.
Backend late_backend();
// A GPU of its own each time: they reach each other's memory.
Backend late_peer_backend();

}  // namespace lockstep
