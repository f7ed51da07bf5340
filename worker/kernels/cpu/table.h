// SPDX-License-Identifier: Apache-2.0
// Common code for the tables of rows.inc and dot_rows.inc.
#pragma once

#include <array>
#include <string_view>

#include "worker/kernels/cpu/pack/pack.h"
#include "worker/kernels/cpu/sizes.h"
#include "worker/kernels/cpu/tiles/tile_ways.h"
#include "worker/kernels/find.h"
#include "worker/kernels/kernel.h"
#include "worker/kernels/pack_rows.h"

namespace lockstep {

constexpr Isa isa_named(std::string_view name) {
  return name.starts_with("amx")         ? Isa::kAmx
         : name == "avx512_bf16"         ? Isa::kAvx512Bf16
         : name == "avx512_vnni"         ? Isa::kAvx512Vnni
         : name == "avx512"              ? Isa::kAvx512
         : name.starts_with("avx2_vnni") ? Isa::kAvx2Vnni
         : name == "avx2"                ? Isa::kAvx2
                                         : Isa::kPortable;
}

namespace portable {
const char* rope_table(const KernelArgs& args);
}
// Compiled for one ISA only.
inline constexpr std::array<KernelEntry, 1> kRopeTable = {
    {{.op = Op::kRopeTable, .run = portable::rope_table, .name = "rope_table_portable"}}};

// Several tables as one array, in the order given.
template <typename... Tables>
constexpr auto merge(const Tables&... tables) {
  std::array<KernelEntry, (std::tuple_size_v<Tables> + ...)> all;
  size_t next = 0;
  const auto append = [&](const auto& table) {
    for (const KernelEntry& entry : table) all[next++] = entry;
  };
  (append(tables), ...);
  return all;
}

}  // namespace lockstep
