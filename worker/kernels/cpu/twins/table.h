// SPDX-License-Identifier: Apache-2.0
// Kernels for instructions that a machine may lack, compiled from the same sources in a form that
// more machines run: for tests. Tiles of AMX emulated (tile_emulated.h), beside portable vectors;
// AVX-VNNI's instructions as AVX-512 spells them. A twin's entry names the ISA that it replaces.
#pragma once

#include <span>

#include "worker/kernels/kernel.h"

namespace lockstep {

std::span<const KernelEntry> amx_twins();        // Run everywhere.
std::span<const KernelEntry> avx2_vnni_twins();  // Need Isa::kAvx512Vnni; none on other machines.

}  // namespace lockstep
