// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/cpu/emulated/table.h"

#include "worker/kernels/cpu/table.h"

#define LOCKSTEP_ISA amx_emulated
#define LOCKSTEP_ISA_NAME "amx_emulated"
#include "worker/kernels/cpu/dot_rows.inc"
#include "worker/kernels/cpu/tiles/tile_ways.inc"
#undef LOCKSTEP_ISA
#undef LOCKSTEP_ISA_NAME

#define LOCKSTEP_ISA avx2_vnni_evex
#define LOCKSTEP_ISA_NAME "avx2_vnni_evex"
#include "worker/kernels/cpu/dot_rows.inc"
#undef LOCKSTEP_ISA
#undef LOCKSTEP_ISA_NAME

namespace lockstep {

std::span<const KernelEntry> emulated_amx_kernels() {
  static constexpr auto kEmulated =
      merge(amx_emulated::code_rows(), amx_emulated::pair_linear_rows());
  return kEmulated;
}

std::span<const KernelVariant> emulated_amx_variants() {
  static constexpr auto kVariants = amx_emulated::tile_variants();
  return kVariants;
}

std::span<const KernelEntry> emulated_vnni_kernels() {
#if defined(__x86_64__)
  static constexpr auto kEmulated = merge(avx2_vnni_evex::code_rows(), avx2_vnni_evex::word_rows());
  return kEmulated;
#else
  return {};
#endif
}

}  // namespace lockstep
