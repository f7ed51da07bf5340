// SPDX-License-Identifier: Apache-2.0
// A plan's costs per rank: the data of `lockstep plan`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/graph/graph.h"
#include "sharding/layout/plan.h"

namespace lockstep {

struct PlanRow {
  int rank = 0;
  int64_t weight_bytes = 0;
  int64_t kv_bytes_per_token = 0;
  int64_t block_bytes = 0;  // State blocks of one sequence, whatever its length.
  int64_t arena_bytes = 0;
  int64_t gathers = 0;                     // all_gathers per step.
  int64_t reduces = 0;                     // all_reduces per step.
  int64_t collective_bytes_per_token = 0;  // This rank's input of collectives on token rows.
  std::array<Range, kAxisCount> columns;   // By axis; all zero if the model lacks the axis.
};

struct PlanTable {
  std::string model;
  Strategy strategy = Strategy::kGather;
  DType kv_dtype = DType::kF32;
  std::vector<PlanRow> rows;  // By rank.
};

// The bytes that one of several hosts sends and receives in all its ranks' collectives.
struct PlanHost {
  int first_rank = 0;
  int end_rank = 0;
  int64_t sent_bytes_per_token = 0;
  int64_t received_bytes_per_token = 0;
};

// `programs` are the result of compile() for `model` with `options`.
absl::StatusOr<PlanTable> plan_table(const Graph& model, const CompileOptions& options,
                                     const std::vector<program::Program>& programs);

// Places ranks in order, evenly over the hosts. A rank's part is sent to each other host once
// (worker/collectives/hosts/routes.h). An all_reduce is counted as if ranks sent whole addends, as
// they do if the addends are small (docs/hosts.md).
std::vector<PlanHost> plan_hosts(const PlanTable& table, int hosts);

}  // namespace lockstep
