// SPDX-License-Identifier: Apache-2.0
// Instruction sets that kernels are compiled for. Each includes those before it, but later ones
// need not include kAvx2Vnni. The bits are the same on all of them, except for bfloat16 weights on
// kAmx.
#pragma once

#include <cstdint>

namespace lockstep {

// kAvx2Vnni adds int8 dot products to kAvx2 (AVX-VNNI), kAvx512Vnni adds them to kAvx512;
// kAvx512Bf16 adds those of bfloat16; kAmx adds products of whole tiles of either type. See
// machine_runs() in cpu.h.
enum class Isa : uint8_t {
  kPortable = 0,
  kAvx2 = 1,
  kAvx2Vnni = 2,
  kAvx512 = 3,
  kAvx512Vnni = 4,
  kAvx512Bf16 = 5,
  kAmx = 6,
};
inline constexpr int kIsaCount = 7;

}  // namespace lockstep
