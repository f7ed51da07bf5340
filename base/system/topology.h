// SPDX-License-Identifier: Apache-2.0
// Describes processors, memory nodes and caches, and binds threads to processors. Reads <root>/sys,
// so that tests can use their own files; keeps no result. If the system reports nothing, there is
// one node, each core has one thread, and caches have 0 bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/isa.h"

namespace lockstep {

// Lists of ids such as "0-3,8", ascending. Parsing gives nullopt if the text is not such a list (an
// empty text is not one) or names an id above 4095.
std::optional<std::vector<int>> parse_processors(std::string_view text);
std::string processors_text(const std::vector<int>& ids);

// A hardware thread, as the system counts them.
struct Processor {
  int id = 0;
  int node = 0;     // The memory node.
  int core = 0;     // Hardware threads with the same node and core share a core.
  int sibling = 0;  // The index among the hardware threads of its core.
};

// Sorted by node, then core, then id.
std::vector<Processor> locate_processors(const std::vector<int>& ids, const std::string& root = "");

// The processors in the calling thread's affinity mask.
std::vector<int> thread_processors();

// The processors to which the threads of worker `worker` are bound if `workers` workers of
// `threads` threads share `usable` (from locate_processors). Every worker has its own block of
// neighbours, and uses one hardware thread of each core before the second one of any core. Empty if
// there are too few processors.
std::vector<int> processors_of_worker(const std::vector<Processor>& usable, int workers,
                                      int threads, int worker);

// The number of threads for all workers that share `usable` and may use `cores` of them at a time.
// With AMX there is at most one thread per core: tiles run at a quarter to a half of their speed
// while the core's other hardware thread is busy.
int default_threads(Isa isa, int cores, const std::vector<Processor>& usable);

// The nodes of these processors, ascending.
std::vector<int> nodes_of(const std::vector<Processor>& processors);

// Binds the calling thread to these processors; false if the system refuses.
bool bind_thread(const std::vector<int>& ids);

// From now on spreads new memory over these nodes, page by page: all pages that the calling thread,
// or a thread that it starts later, is the first to touch. False if the system refuses.
bool interleave_memory(const std::vector<int>& nodes);

struct Caches {
  int64_t l2_bytes = 0;  // Per core.
  int64_t l3_bytes = 0;  // Shared by processor 0 and its neighbours.
};
Caches cpu_caches(const std::string& root = "");

// Transparent huge pages: "always", "madvise" or "never"; "" if the system does not report it.
std::string huge_pages(const std::string& root = "");

}  // namespace lockstep
