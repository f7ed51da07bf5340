// SPDX-License-Identifier: Apache-2.0
// The engine's view of the workers: a group that runs steps. Two kinds: remote ranks over gRPC
// (remote_cluster.h), and ranks on threads of this process
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

// An instruction of a rank's program, for people.
struct OperatorName {
  std::string op;     // "linear"
  std::string value;  // That it makes: "model.layers.0.mlp.down_proj".
};

// One worker of a group.
struct RankInfo {
  std::string host;
  int64_t pid = 0;
  std::string device;  // As the worker's Hello has it.
  std::string isa;
  int64_t weight_bytes = 0;             // That it holds.
  std::vector<OperatorName> operators;  // By instruction.
};

// What the group can do, fixed for an epoch.
struct GroupInfo {
  uint64_t epoch = 0;
  int ranks = 0;
  int64_t pages = 0;  // KV page ids are below this.
  int64_t page_tokens = 0;
  int64_t max_rows = 0;  // Of one step, as of program.Limits.
  int64_t max_outputs = 0;
  int64_t max_sequences = 0;
  int64_t max_context = 0;
  bool shares_prefixes = true;  // False where pages are not all that a sequence leaves behind.
  RopeRule rope = {};
  PrefixRule prefix = {};
  int64_t vocab = 0;
  int64_t weight_bytes = 0;  // Of all ranks.
  std::string numeric_class;
  std::string kernels;  // digest_of() those that were proven, part of the class.
  std::string strategy;
  WeightsOrigin weights;
  bool follows_a_kill = false;  // Somebody ended a worker that was in the group before.
  // In rank order; null where nobody knows.
  std::shared_ptr<const std::vector<RankInfo>> members;

  // Rows that a prompt's prefix can have, beside one of every other sequence.
  int64_t max_prefix_rows() const { return std::max<int64_t>(max_rows - max_sequences + 1, 1); }
  // Positions that one sequence can have: what the model allows and the KV pages hold.
  int64_t servable_context() const { return std::min(max_context, pages * page_tokens); }
};

// What follows from a rank's program; epoch, pages and weight_bytes are the group's own.
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

// What the owner of a group has for it: nothing; requests that only a larger one can take; requests
// that run, or will.
enum class Demand : uint8_t { kNone, kLarger, kRuns };

using RankResults = std::vector<cluster::StepResult>;  // In rank order.

// A complete group of one epoch. Used by the engine's thread alone, but for abort().
class Group {
 public:
  virtual ~Group() = default;
  virtual const GroupInfo& info() const = 0;

  // Gives every rank a step, and does not wait for it: receive() follows, until it has the results.
  // After any error, of this or of another call, the group is over: kUnavailable names the rank
  // that was lost; kDeadlineExceeded: the same, whatever it computed; kAborted: nothing is wrong,
  // but another group can be formed that is better.
  virtual absl::Status send(std::shared_ptr<const cluster::Step> step) = 0;
  // Waits for the results of the step that was sent, in rank order, until the steady clock says
  // `until_ms`. Nothing: they are not there yet.
  virtual absl::StatusOr<std::optional<RankResults>> receive(int64_t until_ms) = 0;
  // Both, for as long as it takes.
  absl::StatusOr<RankResults> run(const cluster::Step& step);

  // The same for the raw logits of output `output` of the last step, over the whole vocabulary.
  virtual absl::Status ask_logits(uint64_t step, int output) = 0;
  virtual absl::StatusOr<std::optional<std::vector<float>>> receive_logits(int64_t until_ms) = 0;

  // Makes a receive() under way return an error soon. Any thread.
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

// What its owner needs of the next group, where it can be had.
struct GroupWish {
  std::string numeric_class;  // In which requests under way were computed; "": any will do.
};

// Where groups come from.
class Cluster {
 public:
  virtual ~Cluster() = default;
  // Waits until a group is complete and a null step has crossed it. An error only when the cluster
  // was shut down (kCancelled) or, before the first group, can never form one: one line that says
  // why. The group given before is over by then.
  virtual absl::StatusOr<std::unique_ptr<Group>> form(const GroupWish& wish) = 0;
  // While no request runs, the group may be formed anew to be larger. The engine's thread.
  virtual void note_demand(Demand /*demand*/) {}
  // Makes form() return kCancelled now and ever after. Any thread.
  virtual void shutdown() = 0;
  // A group is formed, it was heard of within the last second, and it makes progress if it has work
  // to do. Any thread.
  virtual bool healthy() const { return true; }
  // Those that have joined, ranks of the group first, in rank order. Any thread.
  virtual std::vector<WorkerState> workers() const { return {}; }
};

}  // namespace lockstep
