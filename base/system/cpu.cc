// SPDX-License-Identifier: Apache-2.0
// Reads cpuid, /proc and the cgroup files. Both cgroup versions are walked from the process' own
// group up to the root of the mount. Inside a container, the path in /proc/self/cgroup may be a
// path of the host, of which only the root is readable. So missing files are skipped.
#include "base/system/cpu.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace lockstep {
namespace {

constexpr std::array<const char*, kIsaCount> kIsaNames = {
    "portable", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx"};

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The first number of a file; nullopt for "max", -1 or no file.
std::optional<int64_t> read_number(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return std::nullopt;
  std::istringstream in(*text);
  int64_t value = 0;
  if (!(in >> value) || value < 0) return std::nullopt;
  return value;
}

// The number after `key` at the start of a line: "MemTotal:  16 kB", "inactive_file 4096".
std::optional<int64_t> read_field(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    int64_t value = 0;
    if (words >> word && word == key && words >> value) return value;
  }
  return std::nullopt;
}

// Folders of this process' cgroup and its ancestors, for one controller. `version` is 1 or 2.
struct Cgroup {
  int version;
  std::vector<std::string> folders;
};

void add_ancestors(const std::string& mount, std::string path, std::vector<std::string>& folders) {
  while (true) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    folders.push_back(mount + path);
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

bool lists(const std::string& controllers, std::string_view controller) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == controller) return true;
  }
  return false;
}

// The hierarchies that may limit `controller` ("cpu", "memory"). A line of /proc/self/cgroup is
// id:controllers:path; version 2 has id 0 and no controllers.
std::vector<Cgroup> cgroups(const std::string& root, std::string_view controller) {
  std::vector<Cgroup> found;
  const auto text = read_file(root + "/proc/self/cgroup");
  if (!text) return found;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    const std::string base = root + "/sys/fs/cgroup";
    if (controllers.empty()) {
      Cgroup group{2, {}};
      add_ancestors(base, path, group.folders);
      add_ancestors(base + "/unified", path, group.folders);
      found.push_back(std::move(group));
    } else if (lists(controllers, controller)) {
      Cgroup group{1, {}};
      add_ancestors(base + "/" + std::string(controller), path, group.folders);
      add_ancestors(base + "/" + controllers, path, group.folders);
      found.push_back(std::move(group));
    }
  }
  return found;
}

std::optional<double> folder_quota(int version, const std::string& folder) {
  double quota = 0, period = 0;
  if (version == 2) {
    const auto text = read_file(folder + "/cpu.max");  // "max 100000" or "150000 100000".
    if (!text) return std::nullopt;
    std::istringstream in(*text);
    if (!(in >> quota >> period)) return std::nullopt;
  } else {
    quota = static_cast<double>(read_number(folder + "/cpu.cfs_quota_us").value_or(0));
    period = static_cast<double>(read_number(folder + "/cpu.cfs_period_us").value_or(0));
  }
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

// The memory limit of one folder, and how much of it is free.
struct FolderMemory {
  int64_t limit;
  int64_t free;
};

std::optional<FolderMemory> folder_memory(int version, const std::string& folder) {
  const bool v2 = version == 2;
  const auto limit = read_number(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  if (!limit) return std::nullopt;
  const int64_t usage =
      read_number(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes")).value_or(0);
  const std::string stat = read_file(folder + "/memory.stat").value_or("");
  // "file" and "cache" are not used: they include shared memory, which cannot be dropped.
  const int64_t cache = read_field(stat, v2 ? "active_file" : "total_active_file").value_or(0) +
                        read_field(stat, v2 ? "inactive_file" : "total_inactive_file").value_or(0);
  const int64_t used = std::max<int64_t>(0, usage - cache);
  return FolderMemory{*limit, std::max<int64_t>(0, *limit - used)};
}

// The minimum of `machine` (0: unknown) and the field `pick` of every folder.
int64_t min_memory(const std::string& root, int64_t machine, int64_t FolderMemory::*pick) {
  std::optional<int64_t> min;
  if (machine > 0) min = machine;
  for (const Cgroup& group : cgroups(root, "memory")) {
    for (const std::string& folder : group.folders) {
      const auto memory = folder_memory(group.version, folder);
      if (memory && (!min || (*memory).*pick < *min)) min = (*memory).*pick;
    }
  }
  return min.value_or(0);
}

int64_t meminfo_bytes(const std::string& root, std::string_view key) {
  return read_field(read_file(root + "/proc/meminfo").value_or(""), key).value_or(0) * 1024;
}

#if defined(__x86_64__)
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

// Whether the processor has AMX, and the system saves tiles when it switches threads.
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25,
                     kAll = kBf16 | kTile | kInt8;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kAll) != kAll) return false;
  unsigned low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned kTileConfigAndData = 3u << 17;
  return (low & kTileConfigAndData) == kTileConfigAndData;
}

// __builtin_cpu_supports of Clang 14 does not know a name for AVX-VNNI.
bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 4)) != 0;
}

bool amx_is_permitted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // Linux 5.16, asm/prctl.h.
  static const bool permitted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return permitted;
}
#endif

}  // namespace

const char* isa_name(Isa isa) { return kIsaNames[static_cast<size_t>(isa)]; }

std::optional<Isa> find_isa(std::string_view name) {
  for (size_t i = 0; i < kIsaNames.size(); ++i) {
    if (name == kIsaNames[i]) return static_cast<Isa>(i);
  }
  return std::nullopt;
}

bool machine_runs(Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  switch (isa) {
    case Isa::kPortable:
      return true;
    case Isa::kAvx2:
      return has_f16c() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::kAvx2Vnni:
      return machine_runs(Isa::kAvx2) && has_avx_vnni();
    case Isa::kAvx512:
      return machine_runs(Isa::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq");
    case Isa::kAvx512Vnni:
      return machine_runs(Isa::kAvx512) && __builtin_cpu_supports("avx512vnni");
    case Isa::kAvx512Bf16:
      return machine_runs(Isa::kAvx512Vnni) && __builtin_cpu_supports("avx512bf16");
    case Isa::kAmx:
      return machine_runs(Isa::kAvx512Bf16) && has_amx() && amx_is_permitted();
  }
  return false;
#else
  return isa == Isa::kPortable;
#endif
}

Isa machine_isa() {
  int best = kIsaCount - 1;
  while (!machine_runs(static_cast<Isa>(best))) --best;
  return static_cast<Isa>(best);
}

Isa best_isa() {
  const char* wanted = std::getenv("LOCKSTEP_ISA");
  if (wanted == nullptr || *wanted == '\0' || isa_problem()) return machine_isa();
  return *find_isa(wanted);
}

std::optional<std::string> isa_problem() {
  const char* wanted = std::getenv("LOCKSTEP_ISA");
  if (wanted == nullptr || *wanted == '\0') return std::nullopt;
  const auto isa = find_isa(wanted);
  if (!isa) {
    std::string names;
    for (const char* name : kIsaNames) names += std::string(names.empty() ? "" : ", ") + name;
    return "LOCKSTEP_ISA: must be one of " + names + ", found \"" + wanted + "\"";
  }
  if (!machine_runs(*isa)) {
    return "LOCKSTEP_ISA: this processor does not support " + std::string(wanted) +
           " (its best is " + isa_name(machine_isa()) + "); unset it or choose another";
  }
  return std::nullopt;
}

std::string cpu_model_name(const std::string& root) {
  std::ifstream file(root + "/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    if (line.find(':') != std::string::npos && begin != std::string::npos) {
      return line.substr(begin);
    }
  }
  return "unknown";
}

int usable_cores() {
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) cores = CPU_COUNT(&mask);
  if (const auto quota = cpu_quota()) {
    cores = static_cast<int>(std::min<double>(cores, std::ceil(*quota)));
  }
  return std::max(1, cores);
}

std::optional<double> cpu_quota(const std::string& root) {
  std::optional<double> min;
  for (const Cgroup& group : cgroups(root, "cpu")) {
    for (const std::string& folder : group.folders) {
      const auto quota = folder_quota(group.version, folder);
      if (quota && (!min || *quota < *min)) min = quota;
    }
  }
  return min;
}

int64_t memory_total_bytes(const std::string& root) {
  return min_memory(root, meminfo_bytes(root, "MemTotal:"), &FolderMemory::limit);
}

int64_t memory_free_bytes(const std::string& root) {
  return min_memory(root, meminfo_bytes(root, "MemAvailable:"), &FolderMemory::free);
}

}  // namespace lockstep
