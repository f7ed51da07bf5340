// SPDX-License-Identifier: Apache-2.0
// A device without a GPU, for tests: it runs the kernels of .cu files over the shim, in memory that
// the host cannot touch. Queued work runs as late as possible, at synchronize() or wait(), so that
// a host that reads an answer too early, or overwrites what a copy still needs, is detected. The
// memory is mapped without access except while the device works: a host that follows its pointers
// crashes. Every pointer that a kernel gets must be the device's and not released. Captures keep
// the arguments and the step of the capture, as launches keep arguments by value.
#pragma once

#include "worker/backend.h"

namespace lockstep {

// Tests may make any number of them; each is used by one thread at a time. They present themselves
// as one GPU, on which ranks do not meet.
Backend late_backend();
// A separate GPU each time; they reach each other's memory.
Backend late_peer_backend();

}  // namespace lockstep
