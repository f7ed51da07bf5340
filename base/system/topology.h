// SPDX-License-Identifier: Apache-2.0
// Where processors, memory nodes and caches are, and binding threads to processors. Read from
// <root>/sys, so that tests can bring files of their own; nothing is cached. What the system does
// not report counts as one node, cores of one thread, caches of 0 bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// "0-3,8" and back, ids ascending. Nothing where the text is not such a list (an empty text is not)
// or names an id above 4095.
std::optional<std::vector<int>> parse_processors(std::string_view text);
std::string processors_text(const std::vector<int>& ids);

// A hardware thread, as the system counts them.
struct Processor {
  int id = 0;
  int node = 0;     // Of memory.
  int core = 0;     // Hardware threads with the same node and core share one.
  int sibling = 0;  // 0: the first of its core among those looked at.
};

// By node, then core, then id.
std::vector<Processor> locate_processors(const std::vector<int>& ids, const std::string& root = "");

// Those of the calling thread's affinity mask.
std::vector<int> thread_processors();

// What each thread of worker `worker` is bound to where `workers` of `threads` threads share
// `usable` (from locate_processors): every worker has a block of its own, of neighbours, and uses
// whole cores before their second threads. Empty where there are too few.
std::vector<int> processors_of_worker(const std::vector<Processor>& usable, int workers,
                                      int threads, int worker);

// The nodes of these processors, ascending.
std::vector<int> nodes_of(const std::vector<Processor>& processors);

// The calling thread runs on these alone; false where the system refuses.
bool bind_thread(const std::vector<int>& ids);

// Memory that the calling thread, and threads that it starts from now on, touch first is spread
// over these nodes page by page. False where the system refuses.
bool interleave_memory(const std::vector<int>& nodes);

struct Caches {
  int64_t l2_bytes = 0;  // Of one core.
  int64_t l3_bytes = 0;  // Of the processors that share it with the first one.
};
Caches cpu_caches(const std::string& root = "");

// Transparent huge pages: "always", "madvise" or "never"; "" where the system does not say.
std::string huge_pages(const std::string& root = "");

}  // namespace lockstep
