// SPDX-License-Identifier: Apache-2.0
// The engine's view of the workers: a group that runs steps. There are two kinds: remote ranks over
// gRPC (remote_cluster.h), and threads of this process
// (tests/support/cluster/in_process_cluster.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cluster/forming/weights_origin.h"
#include "coordinator/cluster/workers/worker_state.h"
#include "proto/cluster.pb.h"
#include "proto/sequence_rules.h"
#include "proto/validate/validate.h"

namespace lockstep {

// The names of an instruction of a rank's program.
struct OperatorName {
  std::string op;     // "linear"
  std::string value;  // Its result: "model.layers.0.mlp.down_proj".
};

// One worker of a group.
struct RankInfo {
  std::string host;
  int64_t pid = 0;
  std::string device;  // From the worker's Hello.
  std::string isa;
  int64_t weight_bytes = 0;             // Weights in its memory.
  std::vector<OperatorName> operators;  // By instruction.
};

// A group's properties, fixed for an epoch.
struct GroupInfo {
  uint64_t epoch = 0;
  int ranks = 0;
  int64_t pages = 0;  // KV page ids are below this.
  int64_t page_tokens = 0;
  int64_t max_rows = 0;  // Per step; see program.Limits.
  int64_t max_outputs = 0;
  int64_t max_sequences = 0;
  int64_t max_context = 0;
  bool shares_prefixes = true;  // False with state blocks, or if the user turned it off.
  RopeRule rope = {};
  PrefixRule prefix = {};
  int64_t vocab = 0;
  int64_t weight_bytes = 0;  // Over all ranks.
  std::string numeric_class;
  std::string kernels;  // digest_of() the proven kernels; other kernels may give other bits.
  std::string strategy;
  WeightsOrigin weights;
  bool follows_a_kill = false;  // A worker of the previous group was killed or asked to end.
  // In rank order; null if unknown.
  std::shared_ptr<const std::vector<RankInfo>> members;

  // Max rows of a prompt's prefix (PrefixRule): a step has them and a row of every other sequence.
  int64_t max_prefix_rows() const { return std::max<int64_t>(max_rows - max_sequences + 1, 1); }
  // Max positions of one sequence: limited by the model and the KV pages.
  int64_t servable_context() const { return std::min(max_context, pages * page_tokens); }
};

// The properties that follow from a rank's program. The caller sets the others.
inline GroupInfo group_info(const program::Program& program) {
  return {.ranks = program.ranks(),
          .page_tokens = program.limits().page_tokens(),
          .max_rows = program.limits().rows(),
          .max_outputs = program.limits().outputs(),
          .max_sequences = program.limits().sequences(),
          .max_context = program.limits().context(),
          .shares_prefixes = !has_blocks(program),
          .rope = rope_rule(program),
          .prefix = prefix_rule(program.sequence_rules()),
          .vocab = program.vocab(),
          .numeric_class = program.numeric_class(),
          .strategy = program.strategy()};
}

// The work that the owner has for a group: none; only requests that need a larger group; requests
// that run or will run.
enum class Demand : uint8_t { kNone, kLarger, kRuns };

using RankResults = std::vector<cluster::StepResult>;  // In rank order.

// A complete group of one epoch. Used by the engine's thread alone, except abort().
class Group {
 public:
  virtual ~Group() = default;
  virtual const GroupInfo& info() const = 0;

  // Sends a step to every rank without waiting: call receive() until it returns the results. After
  // any error, of this or another call, the group is over. The errors are those of
  // cluster_action::GroupLost.
  virtual absl::Status send(std::shared_ptr<const cluster::Step> step) = 0;
  // Waits for the results of the step, in rank order, until the steady clock reaches `until_ms`.
  // Nullopt: they have not arrived.
  virtual absl::StatusOr<std::optional<RankResults>> receive(int64_t until_ms) = 0;
  // send() and receive(), without a time limit.
  absl::StatusOr<RankResults> run(const cluster::Step& step);

  // Like send() and receive(), for all raw logits of output `output` of the last step.
  virtual absl::Status ask_logits(uint64_t step, int output) = 0;
  virtual absl::StatusOr<std::optional<std::vector<float>>> receive_logits(int64_t until_ms) = 0;

  // Makes a running receive() return an error soon. Any thread.
  virtual void abort() = 0;
};

inline absl::StatusOr<RankResults> Group::run(const cluster::Step& step) {
  absl::Status status = send(std::make_shared<const cluster::Step>(step));
  if (!status.ok()) return status;
  for (;;) {
    absl::StatusOr<std::optional<RankResults>> results = receive(INT64_MAX);
    if (!results.ok()) return results.status();
    if (results->has_value()) return **std::move(results);
  }
}

// The owner's wishes for the next group, followed if possible.
struct GroupRequirements {
  std::string numeric_class;  // The class of the running requests; "": any.
};

// Forms groups.
class Cluster {
 public:
  virtual ~Cluster() = default;
  // Waits until a group is complete and a null step has crossed it. Returns an error, of one line,
  // only if the cluster was shut down (kCancelled) or if the first group can never be formed. The
  // previous group must be over.
  virtual absl::StatusOr<std::unique_ptr<Group>> form(const GroupRequirements& requirements) = 0;
  // Reports the engine's demand: while no request runs, a smaller group may be formed again with
  // more ranks. Engine's thread.
  virtual void note_demand(Demand /*demand*/) {}
  // Makes form() return kCancelled from now on. Any thread.
  virtual void shutdown() = 0;
  // Whether a group is formed, every rank sent a message within the last second, and the group
  // makes progress if it has work. Any thread.
  virtual bool healthy() const { return true; }
  // The workers that have joined: first the group's ranks, in rank order. Any thread.
  virtual std::vector<WorkerState> workers() const { return {}; }
};

}  // namespace lockstep
