// SPDX-License-Identifier: Apache-2.0
// Spares that wait hold the weights of ranks, so that they take their place without loading.
// Nothing here touches the group: whatever a spare does with a preload, or does not, it stays a
// spare.
#include <algorithm>
#include <utility>

#include "base/status.h"
#include "coordinator/cluster/cluster_core.h"

namespace lockstep {

using cluster_action::LogLevel;

namespace {

// Both have the same programs of it. How much memory is free decides nothing there.
bool alike(WorkerFacts one, WorkerFacts other) {
  one.memory_bytes = other.memory_bytes = 0;
  return one == other;
}

}  // namespace

// A group of fewer ranks grows soon, and then all parts are others.
void ClusterCore::cover_ranks() {
  if (over_ || epoch_.phase != Epoch::Phase::kFormed || epoch_.ranks() < options_.workers) return;
  for (auto& [link, member] : members_) {
    const bool waits =
        member.hello.has_value() && member.hello->spare() && epoch_.rank_of(link) < 0;
    if (!waits || member.cover.epoch == epoch_.number) continue;
    preload(member, choose_cover(members_, epoch_.links, link));
  }
}

// What it would be assigned if that rank were lost now. Told anew in each epoch: it knows itself
// what of that it has in memory.
void ClusterCore::preload(Member& spare, int rank) {
  spare.cover.epoch = epoch_.number;
  std::vector<LinkId> links = epoch_.links;
  links[rank] = spare.link;
  const std::vector<WorkerFacts> facts = facts_of(links);
  cluster::CoordinatorMessage message;
  cluster::Assignment& assignment = *message.mutable_preload();
  assignment = assignment_of(links);
  assignment.set_loading_here(1);
  if (std::ranges::equal(facts, epoch_.facts, alike)) {
    *assignment.mutable_program() = epoch_.programs[rank];
  } else {
    absl::StatusOr<std::vector<program::Program>> programs = options_.compile(facts);
    if (!programs.ok()) return;
    *assignment.mutable_program() = std::move((*programs)[rank]);
  }
  if (spare.cover.rank != rank) spare.cover.since = 0;
  spare.cover.rank = rank;
  spare.cover.state = Cover::State::kLoads;
  spare.loaded = false;
  send({spare.link}, std::move(message));
}

void ClusterCore::on_preloaded(int64_t now, Member& member, const cluster::WorkerMessage& message) {
  Cover& cover = member.cover;
  if (cover.state != Cover::State::kLoads || message.epoch() != cover.epoch) return;
  const cluster::Preloaded& preloaded = message.preloaded();
  if (const absl::Status status = check_preloaded(preloaded); !status.ok()) {
    return lose(now, member.link, How::kRefused, message_of(status));
  }
  if (preloaded.has_failure()) {
    std::string why = message_of(status_of(preloaded.failure()));
    const bool logged = why == cover.failure;
    cover = {.state = Cover::State::kFailed, .epoch = cover.epoch, .failure = std::move(why)};
    if (logged) return;
    return log(LogLevel::kWarning, fmt::format("a spare (pid {}) holds no rank's weights: {}",
                                               member.hello->pid(), cover.failure));
  }
  cover.state = Cover::State::kHolds;
  if (cover.since == 0) cover.since = now;
  member.loaded = true;
  member.weight_bytes = preloaded.weight_bytes();
  log(LogLevel::kInfo, fmt::format("a spare (pid {}) holds the weights of rank {}",
                                   member.hello->pid(), cover.rank));
}

}  // namespace lockstep
