// SPDX-License-Identifier: Apache-2.0
#include "base/system/topology.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <tuple>

namespace lockstep {
namespace {

constexpr int kMaxProcessors = 4096;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The number at the start of a text: 2048 for "2048K", 0 if there is none.
int64_t number_of(std::string_view text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// The memory node of each processor.
std::map<int, int> nodes_by_processor(const std::string& root) {
  std::map<int, int> nodes;
  std::error_code error;
  const std::string folder = root + "/sys/devices/system/node";
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with("node") || name.size() == 4) continue;
    const auto ids = parse_processors(first_line(it->path().string() + "/cpulist"));
    if (!ids) continue;  // The node has memory but no processors.
    for (const int id : *ids) nodes[id] = static_cast<int>(number_of(name.substr(4)));
  }
  return nodes;
}

}  // namespace

std::optional<std::vector<int>> parse_processors(std::string_view text) {
  std::vector<int> ids;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    const char* end = part.data() + part.size();
    int first = 0;
    auto read = std::from_chars(part.data(), end, first);
    int last = first;
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-') {
      read = std::from_chars(read.ptr + 1, end, last);
    }
    if (read.ec != std::errc() || read.ptr != end || first < 0 || last < first ||
        last >= kMaxProcessors) {
      return std::nullopt;
    }
    for (int id = first; id <= last; ++id) ids.push_back(id);
    if (part.size() + 1 == text.size()) return std::nullopt;  // A comma without a number after it.
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
  if (ids.empty()) return std::nullopt;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::string processors_text(const std::vector<int>& ids) {
  std::string text;
  for (size_t i = 0, last = 0; i < ids.size(); i = last + 1) {
    for (last = i; last + 1 < ids.size() && ids[last + 1] == ids[last] + 1;) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(ids[i]);
    if (last > i) text += "-" + std::to_string(ids[last]);
  }
  return text;
}

std::vector<Processor> locate_processors(const std::vector<int>& ids, const std::string& root) {
  const std::map<int, int> nodes = nodes_by_processor(root);
  std::vector<Processor> processors;
  for (const int id : ids) {
    const std::string topology =
        root + "/sys/devices/system/cpu/cpu" + std::to_string(id) + "/topology/";
    const std::string core = first_line(topology + "core_id");
    const auto package = number_of(first_line(topology + "physical_package_id"));
    const auto node = nodes.find(id);
    processors.push_back(
        {.id = id,
         .node = node == nodes.end() ? 0 : node->second,
         .core = core.empty() ? id : static_cast<int>(package << 16 | number_of(core))});
  }
  std::sort(processors.begin(), processors.end(), [](const Processor& a, const Processor& b) {
    return std::tie(a.node, a.core, a.id) < std::tie(b.node, b.core, b.id);
  });
  for (size_t i = 1; i < processors.size(); ++i) {
    const Processor& before = processors[i - 1];
    Processor& here = processors[i];
    if (here.node == before.node && here.core == before.core) here.sibling = before.sibling + 1;
  }
  return processors;
}

std::vector<int> thread_processors() {
  std::vector<int> ids;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return ids;
  for (int id = 0; id < CPU_SETSIZE; ++id) {
    if (CPU_ISSET(id, &mask)) ids.push_back(id);
  }
  return ids;
}

std::vector<int> processors_of_worker(const std::vector<Processor>& usable, int workers,
                                      int threads, int worker) {
  const auto count = static_cast<int64_t>(usable.size());
  const int64_t begin = count * worker / workers, end = count * (worker + 1) / workers;
  if (end - begin < threads) return {};
  std::vector<Processor> block(usable.begin() + begin, usable.begin() + end);
  std::stable_sort(block.begin(), block.end(),
                   [](const Processor& a, const Processor& b) { return a.sibling < b.sibling; });
  std::vector<int> ids;
  ids.reserve(static_cast<size_t>(threads));
  for (int thread = 0; thread < threads; ++thread) ids.push_back(block[thread].id);
  return ids;
}

int default_threads(Isa isa, int cores, const std::vector<Processor>& usable) {
  if (isa != Isa::kAmx) return cores;
  const auto first_of_core = [](const Processor& processor) { return processor.sibling == 0; };
  const auto whole = std::count_if(usable.begin(), usable.end(), first_of_core);
  return std::max(1, std::min(cores, static_cast<int>(whole)));
}

std::vector<int> nodes_of(const std::vector<Processor>& processors) {
  std::vector<int> nodes;
  nodes.reserve(processors.size());
  for (const Processor& processor : processors) nodes.push_back(processor.node);
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

bool bind_thread(const std::vector<int>& ids) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int id : ids) {
    if (id >= 0 && id < CPU_SETSIZE) CPU_SET(id, &mask);
  }
  return sched_setaffinity(0, sizeof(mask), &mask) == 0;
}

bool interleave_memory(const std::vector<int>& nodes) {
  constexpr int kBits = 1024;
  unsigned long mask[kBits / 64] = {};
  for (const int node : nodes) {
    if (node >= 0 && node < kBits) mask[node / 64] |= 1ul << (node % 64);
  }
  return syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, mask, kBits) == 0;
}

Caches cpu_caches(const std::string& root) {
  Caches caches;
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        root + "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string size = first_line(folder + "size");
    const int64_t unit = size.ends_with('M') ? 1 << 20 : size.ends_with('K') ? 1 << 10 : 1;
    const int64_t level = number_of(first_line(folder + "level"));
    if (level == 2) caches.l2_bytes = number_of(size) * unit;
    if (level == 3) caches.l3_bytes = number_of(size) * unit;
  }
  return caches;
}

std::string huge_pages(const std::string& root) {
  const std::string line = first_line(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t begin = line.find('['), end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  return line.substr(begin + 1, end - begin - 1);
}

}  // namespace lockstep
