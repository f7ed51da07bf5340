// SPDX-License-Identifier: Apache-2.0
// The .cu kernels compiled for the CPU, for tests. Their memory is the host's, their queue null.
#pragma once

#include <span>

#include "worker/kernels/find.h"

namespace lockstep {

std::span<const KernelEntry> cuda_shim_kernels();
std::span<const KernelVariant> wgmma_shim_variants();
std::span<const KernelVariant> expert_shim_variants();
std::span<const AttentionVariant> attention_shim_variants();

}  // namespace lockstep
