// SPDX-License-Identifier: Apache-2.0
// The resources of this machine, or of the container around the process: instruction sets, cores,
// memory. Nothing is cached; every call reads the system again. Functions with `root` read
// <root>/proc and <root>/sys, so that tests can use their own files.
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

// Whether the processor and the system run an instruction set. kAvx2 is AVX2 with FMA and F16C;
// kAvx2Vnni adds AVX-VNNI. kAvx512 is AVX-512 with F, BW, VL and DQ; kAvx512Vnni adds VNNI,
// kAvx512Bf16 adds BF16 as well, and kAmx adds AMX with INT8 and BF16. AMX needs the system's
// permission for its larger thread state: the first call for kAmx requests it for the whole
// process. If it is refused, there is no AMX.
bool machine_runs(Isa isa);

// The best instruction set that runs on this machine.
Isa machine_isa();

// The instruction set in the environment's LOCKSTEP_ISA; machine_isa() if it is not set or
// isa_problem() returns a problem.
Isa best_isa();

// Why LOCKSTEP_ISA cannot be used, in one line; nullopt if it can, or is not set.
std::optional<std::string> isa_problem();

// "AMD EPYC 9B14"; "unknown" if the system does not report it.
std::string cpu_model_name(const std::string& root = "");

// The number of cores that this process may use, at least 1: the cores in its affinity mask, or, if
// that is smaller, cpu_quota() rounded up.
int usable_cores();

// The min CPU quota of the cgroup (v1 or v2) and its ancestors, in cores; nullopt if unlimited.
std::optional<double> cpu_quota(const std::string& root = "");

// The min of the machine's memory and the limits of the cgroup and its ancestors. 0 if unknown.
int64_t memory_total_bytes(const std::string& root = "");

// Free memory: the min of MemAvailable and of (limit - usage) of the cgroup and its ancestors. Page
// cache counts as free. 0 if unknown.
int64_t memory_free_bytes(const std::string& root = "");

}  // namespace lockstep
