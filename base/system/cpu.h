// SPDX-License-Identifier: Apache-2.0
// What this machine, and the container around the process, gives us: instruction sets, cores,
// memory. Nothing is cached; every call reads the system again. Functions with `root` read
// <root>/proc and <root>/sys, so that tests can lay out files of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/system/isa.h"

namespace lockstep {

// "portable", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx".
const char* isa_name(Isa isa);
std::optional<Isa> find_isa(std::string_view name);

// Whether the processor and the system run it: AVX2 with FMA and F16C; with AVX-VNNI; AVX-512 with
// F, BW, VL and DQ; with VNNI; with BF16 too; all of these and AMX with INT8 and BF16. The system
// must be asked for the room that AMX takes in a thread's state: the first call for kAmx does that
// for the whole process, and where it is refused there is no AMX.
bool machine_runs(Isa isa);

// The best that it runs.
Isa machine_isa();

// machine_isa(), or what the environment's LOCKSTEP_ISA names instead; machine_isa() again where
// isa_problem() has something to say.
Isa best_isa();

// Why LOCKSTEP_ISA cannot be followed, in one line; nothing where it can, or is not set.
std::optional<std::string> isa_problem();

// "AMD EPYC 9B14"; "unknown" where the system does not say.
std::string cpu_model_name(const std::string& root = "");

// Cores that this process may keep busy, at least 1: its affinity mask, or the min CPU quota of
// its cgroup and the ancestors, rounded up, where that is smaller.
int usable_cores();

// The min CPU quota of the cgroup (v1 or v2) and its ancestors, in cores; nothing if unlimited.
std::optional<double> cpu_quota(const std::string& root = "");

// Memory of the machine or the min limit of the cgroup and its ancestors. 0 if unknown.
int64_t memory_total_bytes(const std::string& root = "");

// What can still be had: MemAvailable, or the min (limit - usage) over the cgroup and its
// ancestors, where page cache counts as free. 0 if unknown.
int64_t memory_free_bytes(const std::string& root = "");

}  // namespace lockstep
