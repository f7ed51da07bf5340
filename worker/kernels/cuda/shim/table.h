// SPDX-License-Identifier: Apache-2.0
// The .cu kernels compiled for the CPU, for tests. Their memory is the host's, their queue null.
#pragma once

#include <span>

#include "worker/kernels/kernel.h"

namespace lockstep {

std::span<const KernelEntry> cuda_shim_kernels();

}  // namespace lockstep
