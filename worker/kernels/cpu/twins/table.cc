// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/cpu/twins/table.h"

#include "worker/kernels/cpu/table.h"

#define LOCKSTEP_ISA amx_emulated
#define LOCKSTEP_ISA_NAME "amx_emulated"
#include "worker/kernels/cpu/dot_rows.inc"
#undef LOCKSTEP_ISA
#undef LOCKSTEP_ISA_NAME

#define LOCKSTEP_ISA avx2_vnni_evex
#define LOCKSTEP_ISA_NAME "avx2_vnni_evex"
#include "worker/kernels/cpu/dot_rows.inc"
#undef LOCKSTEP_ISA
#undef LOCKSTEP_ISA_NAME

namespace lockstep {

std::span<const KernelEntry> amx_twins() {
  static constexpr auto kTwins = merge(amx_emulated::code_rows(), amx_emulated::pair_rows());
  return kTwins;
}

std::span<const KernelEntry> avx2_vnni_twins() {
#if defined(__x86_64__)
  static constexpr auto kTwins = merge(avx2_vnni_evex::code_rows(), avx2_vnni_evex::word_rows());
  return kTwins;
#else
  return {};
#endif
}

}  // namespace lockstep
