// SPDX-License-Identifier: Apache-2.0
// Instruction sets that kernels are compiled for, from the least to the best. The bits are the same
// on all of them.
#pragma once

#include <cstdint>

namespace lockstep {

// kAvx512Vnni adds dot products of int8 to kAvx512, kAvx512Bf16 those of bfloat16 as well.
enum class Isa : uint8_t {
  kPortable = 0,
  kAvx2 = 1,
  kAvx512 = 2,
  kAvx512Vnni = 3,
  kAvx512Bf16 = 4,
};
inline constexpr int kIsaCount = 5;

}  // namespace lockstep
