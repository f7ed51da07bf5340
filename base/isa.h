// SPDX-License-Identifier: Apache-2.0
// Instruction sets that kernels are compiled for, from the least to the best. The bits are the same
// on all of them.
#pragma once

#include <cstdint>

namespace lockstep {

enum class Isa : uint8_t { kPortable = 0, kAvx2 = 1, kAvx512 = 2 };
inline constexpr int kIsaCount = 3;

}  // namespace lockstep
