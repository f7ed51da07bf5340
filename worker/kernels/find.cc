// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/find.h"

namespace lockstep {

const KernelEntry* find_kernel(std::span<const KernelEntry> table, Op op, DType weight,
                               DType activation, Isa isa) {
  const auto fits = [](DType entry, DType wanted) {
    return entry == DType::kNone || entry == wanted;
  };
  for (const KernelEntry& entry : table) {
    if (entry.op == op && entry.isa <= isa && fits(entry.weight, weight) &&
        fits(entry.activation, activation)) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace lockstep
