// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/find.h"

namespace lockstep {

const KernelEntry* find_kernel(std::span<const KernelEntry> table, Op op, DType weight,
                               DType activation, Isa isa) {
  const auto fits = [](DType entry, DType wanted) {
    return entry == DType::kNone || entry == wanted;
  };
  const auto takes = [&](const KernelEntry& entry) {
    return fits(entry.activation, activation) || (entry.takes_bf16 && activation == DType::kBF16) ||
           (entry.takes_rounded && is_rounded(activation) && activation == rounded_rows(weight));
  };
  for (const KernelEntry& entry : table) {
    if (entry.op == op && entry.isa <= isa && fits(entry.weight, weight) && takes(entry)) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace lockstep
