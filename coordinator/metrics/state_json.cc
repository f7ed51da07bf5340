// SPDX-License-Identifier: Apache-2.0
// The state of a cluster for the page at /, which reads it every second.
#include "base/json.h"
#include "coordinator/metrics/engine_metrics.h"

namespace lockstep {
namespace {

OrderedJson rank_json(size_t rank, const RankInfo& member, const RankTimes& times) {
  return {{"rank", rank},
          {"host", member.host},
          {"pid", member.pid},
          {"device", member.device},
          {"isa", member.isa},
          {"weight_bytes", member.weight_bytes},
          {"compute_ns", times.compute_ns},
          {"wait_ns", times.wait_ns},
          {"transfer_ns", times.transfer_ns}};
}

OrderedJson spare_json(const WorkerState& worker) {
  return {{"role", role_name(worker.role)},
          {"host", worker.host},
          {"pid", worker.pid},
          {"device", worker.device},
          {"isa", worker.isa},
          {"weight_bytes", worker.weight_bytes},
          {"holds", worker.covers < 0 ? OrderedJson(nullptr) : OrderedJson(worker.covers)}};
}

OrderedJson coordinator_json(const EngineTimes& times) {
  OrderedJson parts = OrderedJson::object();
  for (int part = 0; part < kEngineParts; ++part) {
    parts[engine_part_name(static_cast<EnginePart>(part))] = times[static_cast<size_t>(part)];
  }
  return parts;
}

}  // namespace

std::string EngineMetrics::state_json(const EngineStats& stats,
                                      const std::vector<WorkerState>& workers) const {
  const GroupInfo& group = stats.group;
  OrderedJson ranks = OrderedJson::array();
  int64_t step_ns = 0;
  {
    MutexLock lock(&mutex_);
    step_ns = step_ns_;
    const size_t count = group.members != nullptr ? group.members->size() : 0;
    for (size_t rank = 0; rank < count; ++rank) {
      const RankTimes times = rank < ranks_.size() ? ranks_[rank] : RankTimes{};
      ranks.push_back(rank_json(rank, (*group.members)[rank], times));
    }
  }
  OrderedJson spares = OrderedJson::array();
  for (const WorkerState& worker : workers) {
    if (worker.rank < 0) spares.push_back(spare_json(worker));
  }
  // Names of hosts and devices come from workers: bytes that are not UTF-8 are replaced.
  return write_json(
      {{"model", model_name_},
       {"ready", stats.ready},
       {"epoch", group.epoch},
       {"strategy", group.strategy},
       {"numeric_class", group.numeric_class},
       {"kernels", group.kernels},
       {"context_length", group.servable_context()},
       {"pages",
        {{"total", group.pages}, {"free", stats.pages_free}, {"tokens", group.page_tokens}}},
       {"running", stats.running},
       {"waiting", stats.waiting},
       {"preemptions", stats.preemptions},
       {"steps", stats.steps},
       {"prompt_tokens", stats.prompt_tokens},
       {"generation_tokens", stats.completion_tokens},
       {"step_ns", step_ns},
       {"coordinator_ns", coordinator_json(stats.times_ns)},
       {"ranks", std::move(ranks)},
       {"spares", std::move(spares)}});
}

}  // namespace lockstep
