// SPDX-License-Identifier: Apache-2.0
#include "worker/main.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "base/status.h"
#include "base/topology.h"
#include "worker/session.h"

namespace lockstep {
namespace {

// A launched worker goes when its launcher goes, however that happens.
bool die_with_parent(int parent_pid) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN);
  return getppid() == parent_pid;
}

// A worker that reaches over several memory nodes reads its weights from all of them alike; one
// within a node touches them first, and so has them near.
void spread_memory(const std::vector<int>& processors) {
  const std::vector<int> nodes =
      nodes_of(locate_processors(processors.empty() ? thread_processors() : processors));
  if (nodes.size() > 1 && !interleave_memory(nodes)) {
    spdlog::warn("memory could not be spread over the {} NUMA nodes of this worker", nodes.size());
  }
}

}  // namespace

int worker_main(const WorkerMainOptions& options) {
  const bool launched = options.parent_pid != 0;
  if (launched && !die_with_parent(options.parent_pid)) return 0;
  spread_memory(options.processors);
  KeptWorker kept;
  std::chrono::milliseconds pause{100};
  while (true) {
    Session session(options, &kept);
    const absl::Status status = session.run();
    if (!status.ok()) {
      std::fprintf(stderr, "lockstep worker: %s\n", message_of(status).c_str());
      return 2;
    }
    if (launched) return 0;
    spdlog::info("no coordinator at {}: trying again", options.coordinator);
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(2000));
  }
}

}  // namespace lockstep
