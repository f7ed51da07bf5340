// SPDX-License-Identifier: Apache-2.0
// The CPU's kernels with a fault in one operator, which `verify` must name.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"
#include "worker/backend.h"
#include "worker/kernels/find.h"

namespace lockstep {

inline constexpr size_t kMaxBroken = 64;  // The maximum number of kernels of one operator.
inline std::array<KernelFn, kMaxBroken> broken_originals = {};

// Changes the first number of the first output with numbers. For top_candidates it is the best
// logit.
inline void spoil(const KernelArgs& args) {
  for (const TensorView& out : args.out) {
    if (out.dtype != DType::kF32 || out.rows == 0 || out.cols == 0) continue;
    *out.row<float>(0) += 1 + std::fabs(*out.row<float>(0));
    return;
  }
  if (args.step != nullptr && args.step->output_count > 0 && args.step->outputs[0].top_found > 0) {
    args.step->outputs[0].top[0].logit += 1;
  }
}

template <size_t kIndex>
const char* run_broken(const KernelArgs& args) {
  const char* const failure = broken_originals[kIndex](args);
  spoil(args);
  return failure;
}

template <size_t... kIndices>
constexpr std::array<KernelFn, kMaxBroken> broken_functions(std::index_sequence<kIndices...>) {
  return {run_broken<kIndices>...};
}

// Only one operator may be broken at a time: the original kernels are in one static table.
inline std::vector<KernelEntry> kernels_with_broken(Op op) {
  static constexpr auto kFunctions = broken_functions(std::make_index_sequence<kMaxBroken>());
  std::vector<KernelEntry> kernels(cpu_kernels().begin(), cpu_kernels().end());
  size_t count = 0;
  for (KernelEntry& kernel : kernels) {
    if (kernel.op != op) continue;
    LOCKSTEP_CHECK(count < kMaxBroken);
    broken_originals[count] = kernel.run;
    kernel.run = kFunctions[count++];
  }
  return kernels;
}

}  // namespace lockstep
