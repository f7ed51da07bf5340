// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "worker/kernels/cuda/target.h"
#include "worker/kernels/peer_memory.h"

namespace lockstep::LOCKSTEP_TARGET {

// PeerAccess's functions. Null, or why the kernel could not be started.
const char* all_reduce(const PeerGroup& group, const PeerSum& sum, void* queue);
const char* all_gather(const PeerGroup& group, const PeerGather& gather, void* queue);
const char* reduce_add_norm(const PeerGroup& group, const KernelArgs& args);

}  // namespace lockstep::LOCKSTEP_TARGET
