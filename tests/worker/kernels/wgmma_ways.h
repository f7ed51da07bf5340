// SPDX-License-Identifier: Apache-2.0
// The kernels by wgmma, over the shim and on a GPU that has it, with each number of rows per tile.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/worker/kernels/kernel_case.h"
#include "worker/kernels/cuda/shim/table.h"
#include "worker/kernels/device.h"

namespace lockstep {

inline Device* first_gpu() {
  static std::string problem;
  static const std::unique_ptr<Device> device = open_cuda_device(0, &problem);
  return device.get();
}

inline bool is_on_shim(const KernelEntry& kernel) {
  return std::string_view(kernel.name).ends_with("_shim");
}

// The kernels whose names begin like this.
inline std::vector<KernelEntry> wgmma_kernels(std::string_view begins) {
  std::vector<KernelEntry> found;
  for (const KernelEntry& kernel : kernels_under_test()) {
    if (std::string_view(kernel.name).starts_with(begins)) found.push_back(kernel);
  }
  return found;
}

// A kernel of the table with a fixed number of rows per tile.
struct Variant {
  int tile_rows;
  KernelEntry kernel;
};
inline std::vector<Variant> variants_in(std::span<const KernelVariant> table,
                                        const KernelEntry& kernel) {
  std::vector<Variant> found;
  for (const KernelVariant& variant : table) {
    if (variant.weight != kernel.weight) continue;
    found.push_back({variant.tile_rows, kernel});
    found.back().kernel.run = variant.run;
  }
  return found;
}

}  // namespace lockstep
