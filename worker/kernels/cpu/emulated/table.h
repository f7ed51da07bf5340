// SPDX-License-Identifier: Apache-2.0
// For tests: kernels for instructions that a machine may lack, compiled from the same sources in a
// form that more machines run. AMX's tiles are emulated (tile_emulated.h), with portable vectors;
// AVX-VNNI's instructions use AVX-512's encoding. An entry names the ISA that it replaces.
#pragma once

#include <span>

#include "worker/kernels/find.h"

namespace lockstep {

// The kernels of AMX, in a form that every machine can run.
std::span<const KernelEntry> emulated_amx_kernels();
std::span<const KernelVariant> emulated_amx_variants();
// The kernels of AVX-VNNI, for machines with Isa::kAvx512Vnni. Empty on other machines.
std::span<const KernelEntry> emulated_vnni_kernels();

}  // namespace lockstep
